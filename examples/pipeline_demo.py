"""The whole story in about two minutes: a node, orders in real time, a Spark pipeline, lake tables, a report.

A node starts; a generator writes orders, some malformed and some far too late; a Spark pipeline (examples/orders)
parses them, sends the bad ones to a dead-letter topic, and sums revenue over windows with a watermark into a topic and
a Delta table. What changes about customers comes in Avro, by the node's schema registry, and is merged into a table of
one row each; in the middle the schema gets a field, and so does the table. At the end the totals are checked against
what was generated and a report is written, with the pipeline as a drawing.

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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from kavka.client import NewTopic
from kavka.client.blocking import Client
from kavka.client.registry import Schema, SchemaRegistryError
from kavka.client.registry.blocking import SchemaRegistry
from kavka.client.schemas import Avro
from kavka.model.errors import KafkaError
from kavka.spark.java import NoJavaError, java_home
from kavka.spark.lake import TableSpec, open_table
from kavka.spark.pipelines.drawing import drawing
from kavka.spark.pipelines.flows import start_query
from kavka.spark.pipelines.progress import one_line
from kavka.spark.pipelines.run import session
from kavka.spark.pipelines.spec import Pipeline, load
from kavka.testing import Cluster, NodeError

PROJECT = Path(__file__).parent / "orders"
WINDOW = dt.timedelta(minutes=5)
SPAN = dt.timedelta(hours=1)
COUNTRIES = ("CZ", "DE", "FR", "IT", "PL", "US")
TIERS = ("bronze", "silver", "gold")
CUSTOMERS = 500
FIELDS = [{"name": "name", "type": "string"}, {"name": "country", "type": "string"}]
CUSTOMER = json.dumps({"type": "record", "name": "Customer", "fields": FIELDS})
TIER = {"name": "tier", "type": ["null", "string"], "default": None}
WITH_TIER = json.dumps({"type": "record", "name": "Customer", "fields": [*FIELDS, TIER]})
Row = tuple[str, str, str | None]
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
    customers: dict[str, Row] = field(default_factory=dict)
    changes: int = 0


class Generator:
    """Writes orders and changes of customers; the late orders only after the pipeline has seen some on time."""

    def __init__(self, client: Client, registry: SchemaRegistry, count: int) -> None:
        self._client = client
        self._registry = registry
        self.count = count
        self._draw = random.Random(11)
        self.sent = 0
        self.expected = Expected()
        self.warm = threading.Event()
        self.changed = threading.Event()
        """The schema of customers has another field."""
        self.followed = threading.Event()
        """The pipeline has taken notice of it."""
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
            self._customers(producer, CUSTOMER, range(CUSTOMERS))
            for number in range(self.count):
                if number == self.count // 2:
                    producer.flush()
                    self.warm.wait()
                    self._change_schema()
                    self._customers(producer, WITH_TIER, self._draw.sample(range(CUSTOMERS), 300))
                    self._leave(producer, self._draw.sample(range(CUSTOMERS), 50))
                producer.send("orders", self._order(number, begin), key=b"customer-%d" % (number % 500))
                self.sent += 1
            # Time goes on: the last windows can be closed.
            last = {"id": self.count, "customer": "clock", "country": "CZ", "amount": 0.0}
            producer.send("orders", json.dumps({**last, "at": _text(begin + SPAN + dt.timedelta(hours=1))}).encode())
            self.expected.orders += 1

    def _change_schema(self) -> None:
        self._registry.register("customers-value", Schema(WITH_TIER))
        self.changed.set()
        self.followed.wait()

    def _customers(self, producer: Any, schema: str, numbers: Iterable[int]) -> None:
        avro = Avro[Any](self._registry, schema)
        for number in numbers:
            key = f"customer-{number}"
            tier = self._draw.choice(TIERS) if schema is WITH_TIER else None
            row = (f"Customer {number}", self._draw.choice(COUNTRIES), tier)
            said = dict(zip(("name", "country", "tier"), row, strict=True))
            value = self._registry.run(avro.serialize("customers", said))
            producer.send("customers", value, key=key.encode())
            self.expected.customers[key] = row
            self.expected.changes += 1

    def _leave(self, producer: Any, numbers: Iterable[int]) -> None:
        producer.flush()  # whoever sees these has seen all the others
        for number in numbers:
            producer.send("customers", None, key=b"customer-%d" % number)
            self.expected.customers.pop(f"customer-{number}", None)
            self.expected.changes += 1

    def _order(self, number: int, begin: dt.datetime) -> bytes:
        draw, expected = self._draw, self.expected
        if draw.random() < 0.01:
            expected.malformed += 1
            return draw.choice([b"not json", b'{"id": "seven"}', b'{"id": 7, "amount": 1.0', b"\xff\xfe", b"[]"])
        at = begin + SPAN * (number / self.count) + dt.timedelta(seconds=draw.uniform(-60, 60))
        at = max(at, begin)
        amount = round(draw.lognormvariate(3, 1), 2)
        late = number > self.count // 2 and draw.random() < 0.02
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
            and self.rows["customers"] == len(expected.customers)
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


def customers(spec: TableSpec | None) -> dict[str, Row]:
    """The rows of the upserted table."""
    from deltalake import DeltaTable

    assert spec is not None
    rows = DeltaTable(spec.path).to_pyarrow_table().to_pylist()
    return {row["customer"]: (row["name"], row["country"], row.get("tier")) for row in rows}


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
    found = customers(tables["customers"])
    yield "customers in the upserted table", len(expected.customers), len(found)
    tiers, found_tiers = (sum(row[2] is not None for row in each.values()) for each in (expected.customers, found))
    yield "customers with the field that came later", tiers, found_tiers
    yield "customers with another row", 0, sum(found.get(key) != row for key, row in expected.customers.items())


def status(generator: Generator, watcher: Watcher, progress: Progress, query_lines: list[str]) -> Group:
    """What is shown while it runs."""
    table = Table(box=None, pad_edge=False)
    for column in (
        "orders written",
        "in the Delta table",
        "dead letters",
        "windows closed",
        "customers",
        "revenue so far",
    ):
        table.add_column(column, justify="right")
    table.add_row(
        f"{generator.sent:,}",
        f"{watcher.rows.get('orders', 0):,}",
        f"{watcher.dead:,}",
        f"{len(watcher.windows):,}",
        f"{watcher.rows.get('customers', 0):,}",
        f"{sum(watcher.windows.values()):,.2f}",
    )
    return Group(progress, table, *query_lines)


def watch(
    generator: Generator, watcher: Watcher, queries: dict[str, Any], restart: Callable[[str], None], console: Console
) -> None:
    """Show how it goes on until everything has come; raises if a query fails or it takes too long."""
    bar = Progress(TextColumn("writing orders"), BarColumn(), MofNCompleteColumn(), console=console)
    task = bar.add_task("", total=generator.count)
    writer = threading.Thread(target=generator.run, daemon=True)
    writer.start()
    began = said = time.monotonic()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while writer.is_alive() or not watcher.done(generator.expected):
            watcher.look()
            bar.update(task, completed=generator.sent)
            if watcher.rows.get("customers", 0) and (queries["revenue"].lastProgress or {}).get("batchId", 0) >= 1:
                generator.warm.set()
            if generator.changed.is_set() and not generator.followed.is_set():
                console.print("the schema of customers has a new field: their flow starts again, as after", end=" ")
                console.print("`kavka pipeline restart customers`", soft_wrap=True)
                restart("customers")
                generator.followed.set()
            live.update(status(generator, watcher, bar, [_line(query) for query in queries.values()]))
            for query in queries.values():
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


def stop(query: Any) -> None:
    """Stop a query between two of its batches."""
    while query.isActive and query.status["isTriggerActive"]:
        time.sleep(0.05)
    query.stop()


def _line(query: Any) -> str:
    last = query.lastProgress
    if not last:
        return f"  {query.name}: starting"
    return f"  {query.name}: batch {last['batchId']}, {last['processedRowsPerSecond'] or 0:,.0f} rows/s"


def figures(expected: Expected, watcher: Watcher) -> dict[str, str]:
    """What the drawing says of topics and tables."""
    return {
        "orders": f"{expected.orders + expected.malformed:,} records",
        "orders-dead": f"{watcher.dead:,} dead letters",
        "revenue": f"{len(watcher.windows):,} windows",
        "customers": f"{expected.changes:,} changes, Avro",
        "table orders": f"Delta, {watcher.rows.get('orders', 0):,} rows",
        "table revenue-table": f"Delta, {watcher.rows.get('revenue-table', 0):,} rows",
        "table customers": f"Delta, {watcher.rows.get('customers', 0):,} rows by key",
    }


def report(
    path: Path,
    picture: str,
    expected: Expected,
    windows: Counter[dt.datetime],
    found: list[tuple[str, Any, Any]],
    seconds: float,
) -> None:
    """A page with the pipeline as a drawing, the windows that it found as a chart, and the checks as a table."""
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
        "body{font:16px/1.5 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem;color:#222}"
        ".chart rect{fill:#3b6ea5}.chart text{font:11px system-ui,sans-serif;fill:#555}"
        "td,th{padding:.2rem .8rem;text-align:right}td:first-child{text-align:left}svg{width:100%}"
        ".chart{max-width:44rem}table{border-collapse:collapse}tr+tr{border-top:1px solid #ddd}</style>"
        f"<h1>Orders, from a topic to tables</h1><p>{expected.orders:,} orders, {expected.malformed:,} malformed, "
        f"{expected.late:,} too late for their window, {expected.changes:,} changes of customers; {seconds:.0f} s in "
        f"all. In the middle the schema of customers got the field <code>tier</code>, and their table a column.</p>"
        f"{picture}<h2>Revenue by windows of five minutes</h2>"
        f'<svg class="chart" viewBox="0 0 {60 + 44 * len(starts)} 250" role="img" aria-label="Revenue by window">'
        f"{bars}</svg>"
        f"<h2>Checks</h2><table><tr><th></th><th>generated</th><th>found</th><th></th></tr>{rows}</table></html>\n"
    )


def run(orders: int, folder: Path, console: Console) -> bool:
    """Everything; whether the totals match."""
    began = time.monotonic()
    project = folder / "orders"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__", ".kavka", "tables"))
    with (
        Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as cluster,
        Client(cluster.bootstrap) as client,
        SchemaRegistry(cluster.registry) as registry,
    ):
        console.print(
            f"a node serves at {cluster.bootstrap}, its schema registry at {cluster.registry}, "
            f"{cluster.started_in_seconds:.2f} s after its start",
            soft_wrap=True,
        )
        names = ("orders", "orders-dead", "revenue", "customers")
        client.admin.create_topics([NewTopic(name, partitions=2) for name in names])
        registry.register("customers-value", Schema(CUSTOMER))
        spec = project / "pipeline.yaml"
        spec.write_text(spec.read_text().replace("http://127.0.0.1:8081", cluster.registry))
        pipeline = load(project, cluster.bootstrap)
        console.print("Spark starts, and the pipeline with it …")
        with session(pipeline, "local[2]") as spark:
            generator, watcher = Generator(client, registry, orders), Watcher(client, pipeline)
            queries = {flow.name: start_query(spark, pipeline, flow, once=False) for flow in pipeline.flows}

            def restart(name: str) -> None:
                stop(queries[name])
                queries[name] = start_query(spark, pipeline, pipeline.flow(name), once=False)

            try:
                watch(generator, watcher, queries, restart, console)
            finally:
                watcher.close()
                for query in queries.values():
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
    picture = drawing(pipeline, figures(generator.expected, watcher))
    report(path, picture, generator.expected, watcher.windows, found, time.monotonic() - began)
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
    except (NoJavaError, NodeError, KafkaError, SchemaRegistryError, RuntimeError) as error:
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
