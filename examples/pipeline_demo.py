"""The whole story in about two minutes: a node, orders in real time, a Spark pipeline, lake tables, a report.

A node starts; a generator writes orders, some malformed and some far too late; a Spark pipeline (examples/orders)
parses them, sends the bad ones to a dead-letter topic, and sums revenue over windows with a watermark into a topic and
a Delta table. At the end the totals are checked against what was generated and a report is written.

Run it with `make demo`, or `python examples/pipeline_demo.py --orders 100000`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from kavka.client import NewTopic
from kavka.client.blocking import Client
from kavka.model.errors import KafkaError
from kavka.spark.java import NoJavaError, java_home
from kavka.spark.lake import TableSpec, open_table
from kavka.spark.pipelines.flows import start_query
from kavka.spark.pipelines.progress import one_line
from kavka.spark.pipelines.run import session
from kavka.spark.pipelines.spec import Pipeline, load
from kavka.testing import Cluster, NodeError

PROJECT = Path(__file__).parent / "orders"
WINDOW = dt.timedelta(minutes=5)
SPAN = dt.timedelta(hours=1)
COUNTRIES = ("CZ", "DE", "FR", "IT", "PL", "US")
TIMEOUT_SECONDS = 240
SAY_SECONDS = 5.0
"""How often a line is printed where there is no terminal to draw on."""


@dataclass
class Expected:
    """What was generated."""

    orders: int = 0
    malformed: int = 0
    late: int = 0
    revenue: float = 0.0
    windows: dict[dt.datetime, float] = field(default_factory=lambda: defaultdict(float))


class Generator:
    """Writes orders; the late ones only after the pipeline has seen some that were on time."""

    def __init__(self, client: Client, count: int) -> None:
        self._client = client
        self._count = count
        self._draw = random.Random(11)
        self.sent = 0
        self.expected = Expected()
        self.warm = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Write everything."""
        try:
            self._run()
        except BaseException as error:  # the main thread tells it
            self.failure = error

    def _run(self) -> None:
        begin = dt.datetime.now(dt.UTC).replace(microsecond=0, second=0, minute=0) - SPAN
        with self._client.producer(codec="lz4", linger_ms=20, batch_bytes=65_536) as producer:
            for number in range(self._count):
                if number == self._count // 2:
                    producer.flush()
                    self.warm.wait()
                producer.send("orders", self._order(number, begin), key=b"customer-%d" % (number % 500))
                self.sent += 1
            # Time goes on: the last windows can be closed.
            last = {"id": self._count, "customer": "clock", "country": "CZ", "amount": 0.0}
            producer.send("orders", json.dumps({**last, "at": _text(begin + SPAN + dt.timedelta(hours=1))}).encode())
            self.expected.orders += 1

    def _order(self, number: int, begin: dt.datetime) -> bytes:
        draw, expected = self._draw, self.expected
        if draw.random() < 0.01:
            expected.malformed += 1
            return draw.choice([b"not json", b'{"id": "seven"}', b'{"id": 7, "amount": 1.0', b"\xff\xfe", b"[]"])
        at = begin + SPAN * (number / self._count) + dt.timedelta(seconds=draw.uniform(-60, 60))
        at = max(at, begin)
        amount = round(draw.lognormvariate(3, 1), 2)
        late = number > self._count // 2 and draw.random() < 0.02
        if late:
            at -= dt.timedelta(hours=6)
            expected.late += 1
        else:
            expected.windows[_window(at)] += amount
        expected.orders += 1
        expected.revenue += amount
        order = {"id": number, "customer": f"customer-{number % 500}", "country": draw.choice(COUNTRIES)}
        return json.dumps({**order, "amount": amount, "at": _text(at)}).encode()


def _text(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _window(moment: dt.datetime) -> dt.datetime:
    seconds = WINDOW.total_seconds()
    return dt.datetime.fromtimestamp(moment.timestamp() // seconds * seconds, dt.UTC)


class Watcher:
    """Reads what the pipeline writes, as anybody could."""

    def __init__(self, client: Client, pipeline: Pipeline) -> None:
        self._client = client
        self._tables = {flow.name: flow.sink.table for flow in pipeline.flows if flow.sink.table is not None}
        self._consumer = client.consumer("revenue", "orders-dead")
        self.dead = 0
        self.windows: Counter[dt.datetime] = Counter()
        self.rows: dict[str, int] = {}

    def look(self) -> None:
        """See what is new."""
        for record in self._consumer.read(timeout_ms=50):
            if record.topic == "orders-dead":
                self.dead += 1
            elif record.value is not None:
                row = json.loads(record.value)
                self.windows[dt.datetime.fromisoformat(row["start"])] += row["revenue"]
        self.rows = {name: open_table(table).freshness().rows for name, table in self._tables.items() if table}

    def done(self, expected: Expected) -> bool:
        """Whether everything that will come has come."""
        return (
            self.rows["orders"] >= expected.orders
            and self.dead >= expected.malformed
            and len(self.windows) >= len(expected.windows)
            and self.rows["revenue-table"] >= len(expected.windows)
        )

    def line(self, written: int) -> str:
        """How things stand."""
        in_table = self.rows.get("orders", 0)
        return (
            f"{written:,} orders written, {in_table:,} in the Delta table, {self.dead:,} dead letters, "
            f"{len(self.windows)} windows closed"
        )

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def totals(spec: TableSpec, column: str) -> tuple[int, float]:
    """Rows and sum of a Delta table, read without Spark."""
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    table = DeltaTable(spec.path).to_pyarrow_table()
    return table.num_rows, float(pc.sum(table.column(column)).as_py() or 0.0)


def checks(expected: Expected, watcher: Watcher, pipeline: Pipeline) -> Iterator[tuple[str, Any, Any]]:
    """What must be equal: what it is, what was generated, what was found."""
    tables = {flow.name: flow.sink.table for flow in pipeline.flows}
    orders, windows = tables["orders"], tables["revenue-table"]
    assert orders is not None
    assert windows is not None
    rows, revenue = totals(orders, "amount")
    yield "orders in the Delta table", expected.orders, rows
    yield "revenue in the Delta table", round(expected.revenue, 2), round(revenue, 2)
    yield "dead letters", expected.malformed, watcher.dead
    on_time = round(sum(expected.windows.values()), 2)
    yield "windows in the topic", len(expected.windows), len(watcher.windows)
    yield "revenue in the topic's windows, late orders left out", on_time, round(sum(watcher.windows.values()), 2)
    rows, revenue = totals(windows, "revenue")
    yield "windows in their Delta table", len(expected.windows), rows
    yield "revenue in that table", on_time, round(revenue, 2)
    wrong = [start for start, sum_ in expected.windows.items() if abs(watcher.windows[start] - sum_) > 0.005]
    yield "windows with another sum", 0, len(wrong)


def status(generator: Generator, watcher: Watcher, progress: Progress, query_lines: list[str]) -> Group:
    """What is shown while it runs."""
    table = Table(box=None, pad_edge=False)
    for column in ("orders written", "in the Delta table", "dead letters", "windows closed", "revenue so far"):
        table.add_column(column, justify="right")
    table.add_row(
        f"{generator.sent:,}",
        f"{watcher.rows.get('orders', 0):,}",
        f"{watcher.dead:,}",
        f"{len(watcher.windows):,}",
        f"{sum(watcher.windows.values()):,.2f}",
    )
    return Group(progress, table, *query_lines)


def watch(generator: Generator, watcher: Watcher, queries: list[Any], console: Console) -> None:
    """Show how it goes on until everything has come; raises if a query fails or it takes too long."""
    bar = Progress(TextColumn("writing orders"), BarColumn(), MofNCompleteColumn(), console=console)
    task = bar.add_task("", total=generator._count)
    writer = threading.Thread(target=generator.run, daemon=True)
    writer.start()
    began = said = time.monotonic()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while writer.is_alive() or not watcher.done(generator.expected):
            watcher.look()
            bar.update(task, completed=generator.sent)
            if watcher.rows.get("orders", 0) and (queries[1].lastProgress or {}).get("batchId", 0) >= 1:
                generator.warm.set()
            live.update(status(generator, watcher, bar, [_line(query) for query in queries]))
            for query in queries:
                if not query.isActive:
                    raise RuntimeError(f"flow {query.name}: {one_line(query.exception() or RuntimeError('stopped'))}")
            if generator.failure is not None:
                raise generator.failure
            now = time.monotonic()
            if now > began + TIMEOUT_SECONDS:
                raise RuntimeError(f"not everything came within {TIMEOUT_SECONDS} s")
            if not console.is_terminal and now > said + SAY_SECONDS:
                said = now
                console.print(f"{now - began:3.0f} s: {watcher.line(generator.sent)}", soft_wrap=True)
            time.sleep(0.2)


def _line(query: Any) -> str:
    last = query.lastProgress
    if not last:
        return f"  {query.name}: starting"
    return f"  {query.name}: batch {last['batchId']}, {last['processedRowsPerSecond'] or 0:,.0f} rows/s"


def report(
    path: Path, expected: Expected, windows: Counter[dt.datetime], found: list[tuple[str, Any, Any]], seconds: float
) -> None:
    """A page with the windows that the pipeline found as a chart, and the checks as a table."""
    starts = sorted(windows)
    top = max(windows.values(), default=0.0) or 1.0
    bars = "".join(
        f'<rect x="{40 + i * 44}" y="{220 - 180 * windows[start] / top:.1f}" width="36" '
        f'height="{180 * windows[start] / top:.1f}" rx="3">'
        f"<title>{windows[start]:,.2f}</title></rect>"
        f'<text x="{58 + i * 44}" y="238" text-anchor="middle">{start:%H:%M}</text>'
        for i, start in enumerate(starts)
    )
    rows = "".join(
        f"<tr><td>{what}</td><td>{wanted:,}</td><td>{got:,}</td><td>{'✓' if wanted == got else '✗'}</td></tr>"
        for what, wanted, got in found
    )
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Kavka: orders</title><style>"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
        "rect{fill:#3b6ea5}text{font-size:11px;fill:#555}td,th{padding:.2rem .8rem;text-align:right}"
        "td:first-child{text-align:left}table{border-collapse:collapse}tr+tr{border-top:1px solid #ddd}</style>"
        f"<h1>Revenue by windows of five minutes</h1><p>{expected.orders:,} orders, {expected.malformed:,} malformed, "
        f"{expected.late:,} too late for their window; {seconds:.0f} s in all.</p>"
        f'<svg viewBox="0 0 {60 + 44 * len(starts)} 250" role=img aria-label="Revenue by window">{bars}</svg>'
        f"<h2>Checks</h2><table><tr><th></th><th>generated</th><th>found</th><th></th></tr>{rows}</table></html>\n"
    )


def run(orders: int, folder: Path, console: Console) -> bool:
    """Everything; whether the totals match."""
    began = time.monotonic()
    project = folder / "orders"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__", ".kavka", "tables"))
    with Cluster() as cluster, Client(cluster.bootstrap) as client:
        console.print(f"a node serves at {cluster.bootstrap}, {cluster.started_in_seconds:.2f} s after its start")
        names = ("orders", "orders-dead", "revenue")
        client.admin.create_topics([NewTopic(name, partitions=2) for name in names])
        pipeline = load(project, cluster.bootstrap)
        console.print("Spark starts, and the pipeline with it …")
        with session(pipeline, "local[2]") as spark:
            generator, watcher = Generator(client, orders), Watcher(client, pipeline)
            queries = [start_query(spark, pipeline, flow, once=False) for flow in pipeline.flows]
            try:
                watch(generator, watcher, queries, console)
            finally:
                watcher.close()
                for query in queries:
                    query.stop()
        found = list(checks(generator.expected, watcher, pipeline))
    table = Table(title="What was generated and what was found", title_justify="left")
    for column in ("", "generated", "found", ""):
        table.add_column(column, justify="left" if not column else "right")
    for what, wanted, got in found:
        table.add_row(what, f"{wanted:,}", f"{got:,}", "[green]ok[/]" if wanted == got else "[red]wrong[/]")
    console.print(table)
    path = Path("build") / "kavka-demo.html"
    path.parent.mkdir(exist_ok=True)
    report(path, generator.expected, watcher.windows, found, time.monotonic() - began)
    console.print(f"report: {path}", soft_wrap=True)
    return all(wanted == got for _, wanted, got in found)


def main() -> int:
    """Run the demo; exit code 0 if every total matches."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orders", type=int, default=20_000, help="how many to generate")
    options = parser.parse_args()
    console = Console()
    # Told to stop, it cleans up as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        java_home()
        with tempfile.TemporaryDirectory(prefix="kavka-demo-") as folder:
            good = run(options.orders, Path(folder), console)
    except (NoJavaError, NodeError, KafkaError, RuntimeError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("demo: stopped\n")
        return 130
    if not good:
        sys.stderr.write("demo: the totals do not match\n")
        return 1
    console.print(
        "everything matches. Next: the pipeline is in examples/orders, docs/spark.md has the tutorial, and "
        "`kavka pipeline init my-pipeline` makes your own.",
        soft_wrap=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
