"""How fast does Spark read topics? `python -m bench.spark [--quick] [--connector JARS]`: records/s and MB/s into noop.

Two topics, 100 B and 1 KiB records, are read whole with each compression; the session is warm and every figure is the
best of three. With the jars of Spark's own Kafka connector it reads the same topics from the same node, side by side.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.report import OUT, machine
from kavka.client import Codec, NewTopic, Pool, Producer
from kavka.client.blocking import Client
from kavka.testing import Cluster

PARTITIONS = 4
RUNS = 3


@dataclass(frozen=True)
class Load:
    """Records of one size."""

    topic: str
    count: int
    size: int
    codec: Codec
    records_per_second: float = 0
    """The promise, if there is one."""
    mb_per_second: float = 0


def loads(quick: bool) -> list[Load]:
    """What is read."""
    small, large = (200_000, 50_000) if quick else (2_000_000, 500_000)
    return [
        Load("small-none", small, 100, "none", records_per_second=1_000_000),
        Load("small-lz4", small, 100, "lz4", records_per_second=1_000_000),
        Load("small-zstd", small, 100, "zstd"),
        Load("large-none", large, 1024, "none", mb_per_second=250),
        Load("large-lz4", large, 1024, "lz4", mb_per_second=250),
        Load("large-zstd", large, 1024, "zstd"),
    ]


async def fill(bootstrap: str, load: Load) -> None:
    """Write a topic; the values are half random so that they compress as real ones do."""
    draw = random.Random(7)
    pool = [(draw.randbytes(load.size // 2) + b"x" * load.size)[: load.size] for _ in range(997)]
    async with (
        Pool(bootstrap) as connections,
        Producer(connections, codec=load.codec, batch_bytes=128 << 10, linger_ms=50) as producer,
    ):
        for number in range(load.count):
            await producer.send(load.topic, pool[number % len(pool)], partition=number // 1000 % PARTITIONS)


def measure(spark: Any, source: str, bootstrap: str, load: Load) -> float:
    """Seconds that reading the whole topic takes, the best of some runs."""
    best = float("inf")
    for _ in range(RUNS):
        frame = (
            spark.read.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", load.topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        best = min(best, time.perf_counter() - began)
    return best


def rows(quick: bool, jars: str | None, only: str | None = None) -> Iterator[dict[str, Any]]:
    """One row for each load."""
    import asyncio

    from kavka.spark.session import start

    conf = {"spark.jars": jars} if jars else {}
    with Cluster(config={"log.retention.ms": "-1"}) as cluster:
        chosen = [load for load in loads(quick) if only is None or only in load.topic]
        with Client(cluster.bootstrap) as client:
            client.admin.create_topics([NewTopic(load.topic, partitions=PARTITIONS) for load in chosen])
        for load in chosen:
            asyncio.run(fill(cluster.bootstrap, load))
        spark = start("bench", conf=conf)
        try:
            measure(spark, "kavka", cluster.bootstrap, chosen[0])
            for load in chosen:
                row: dict[str, Any] = {"topic": load.topic, "records": load.count, "size": load.size}
                for source in ("kavka", "kafka") if jars else ("kavka",):
                    seconds = measure(spark, source, cluster.bootstrap, load)
                    row[source] = {
                        "seconds": round(seconds, 3),
                        "records_per_second": round(load.count / seconds),
                        "mb_per_second": round(load.count * load.size / seconds / 1e6, 1),
                    }
                ours = row["kavka"]
                row["met"] = (
                    ours["records_per_second"] >= load.records_per_second
                    and ours["mb_per_second"] >= load.mb_per_second
                )
                yield row
        finally:
            spark.stop()


def main() -> int:
    """Measure, print the table and keep it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--connector", metavar="JARS", help="the jars of Spark's Kafka connector, with commas between")
    parser.add_argument("--only", metavar="TEXT", help="loads whose topic has this in its name")
    options = parser.parse_args()
    table = Table(title="Spark reads topics into noop")
    for column in ("topic", "records", "kavka records/s", "MB/s", "Spark's connector records/s", "MB/s", "ratio", ""):
        table.add_column(column, justify="left" if column == "topic" else "right")
    found = []
    for row in rows(options.quick, options.connector, options.only):
        ours, theirs = row["kavka"], row.get("kafka")
        print(json.dumps(row), file=sys.stderr, flush=True)
        found.append(row)
        table.add_row(
            row["topic"],
            f"{row['records']:,}",
            f"{ours['records_per_second']:,}",
            f"{ours['mb_per_second']:,}",
            f"{theirs['records_per_second']:,}" if theirs else "-",
            f"{theirs['mb_per_second']:,}" if theirs else "-",
            f"{theirs['seconds'] / ours['seconds']:.1f}x" if theirs else "-",
            "[green]ok[/]" if row["met"] else "[red]miss[/]",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    OUT.mkdir(exist_ok=True)
    path = OUT / f"spark-{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    path.write_text(json.dumps({**machine(), "rows": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
