"""How much CPU does it take Spark to decode JSON? `python -m bench.spark_json [--rows N] [--connector JARS]`.

One topic of orders is read into noop three ways in turns: `value.format=json`, the same source with Spark's `from_json`
(FAILFAST), and, with its jars, Spark's own Kafka connector with `from_json`. A figure is rows per CPU-second of Spark
and its Python workers, the best of three; the broker's are not in it. All ways must have the same rows. The exit code
is 1 where the aim is missed, 1.5 times `from_json` by whatever source, and 2 where rows differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from bench.report import OUT, machine
from kavka.client import NewTopic, Pool, Producer
from kavka.client.blocking import Client
from kavka.testing import Cluster

TOPIC = "orders"
RUNS = 3
OURS = "value.format=json"
TARGET = 1.5
SCHEMA = (
    "id BIGINT, customer STRING, country STRING, amount DOUBLE, at TIMESTAMP, tags ARRAY<STRING>, "
    "address STRUCT<city: STRING, zip: INT>"
)


def orders(count: int) -> Iterator[bytes]:
    """Objects as services write them."""
    draw = random.Random(23)
    for number in range(count):
        order = {
            "id": number,
            "customer": f"customer-{number % 500}",
            "country": draw.choice(("CZ", "DE", "FR")),
            "amount": round(draw.lognormvariate(3, 1), 2),
            "at": f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}.123Z",
            "tags": ["new", "web"],
            "address": {"city": "Praha", "zip": number % 90_000},
        }
        yield json.dumps(order).encode()


async def fill(bootstrap: str, count: int) -> None:
    """Write the topic."""
    async with (
        Pool(bootstrap) as pool,
        Producer(pool, codec="lz4", batch_bytes=128 << 10, linger_ms=50) as producer,
    ):
        for number, value in enumerate(orders(count)):
            await producer.send(TOPIC, value, partition=number // 1000 % 2)


def cpu_seconds(spared: int) -> float:
    """CPU time of this process and all below it, also those that have ended, without one."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        if process.pid != spared:
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def ways(spark: Any, bootstrap: str, jars: str | None) -> dict[str, Callable[[], Any]]:
    """The frames that are compared."""
    from pyspark.sql import functions as f

    def read(source: str, **options: str) -> Any:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC)
        return reader.option("startingOffsets", "earliest").options(**options).load()

    def from_json(frame: Any) -> Any:
        text = f.col("value").cast("string")
        return frame.select(f.from_json(text, SCHEMA, {"mode": "FAILFAST"}).alias("value")).select("value.*")

    found: dict[str, Callable[[], Any]] = {
        OURS: lambda: read("kavka", **{"value.format": "json", "value.schema": SCHEMA, "columns": "value"}).select(
            "value.*"
        ),
        "from_json": lambda: from_json(read("kavka", columns="value")),
    }
    if jars:
        found["Spark's connector, from_json"] = lambda: from_json(read("kafka"))
    return found


class RowsDifferError(Exception):
    """Two ways have not read the same."""


def sums(frame: Any) -> Any:
    """How many rows there are, and a number that all their columns have a part in."""
    columns = ", ".join(sorted(frame.columns))
    return frame.selectExpr("count(*)", f"sum(cast(xxhash64({columns}) AS decimal(38, 0)))").first()


def measured(rows: int, jars: str | None) -> dict[str, float]:
    """Rows per CPU-second of each way; raises RowsDifferError."""
    from kavka.spark.session import start

    with Cluster() as cluster:
        with Client(cluster.bootstrap) as client:
            client.admin.create_topics([NewTopic(TOPIC, partitions=2)])
        asyncio.run(fill(cluster.bootstrap, rows))
        spark = start("bench", conf={"spark.jars": jars} if jars else {})
        best: dict[str, float] = {}
        try:
            for run in range(RUNS + 1):
                for name, frame in ways(spark, cluster.bootstrap, jars).items():
                    before = cpu_seconds(cluster.pid)
                    frame().write.format("noop").mode("overwrite").save()
                    took = cpu_seconds(cluster.pid) - before
                    if run:  # the first one warms up
                        best[name] = max(best.get(name, 0.0), rows / took)
            told = {name: sums(frame()) for name, frame in ways(spark, cluster.bootstrap, jars).items()}
            if any(each != told[OURS] or each[0] != rows for each in told.values()):
                raise RowsDifferError(f"the rows differ: {told}")
        finally:
            spark.stop()
    return best


def main() -> int:
    """Measure, print, and keep it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_json", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--connector", metavar="JARS", help="the jars of Spark's Kafka connector, with commas between")
    options = parser.parse_args()
    try:
        found = measured(options.rows, options.connector)
    except RowsDifferError as error:
        print(error, file=sys.stderr)
        return 2
    for name, rate in found.items():
        print(f"{name}: {rate:,.0f} rows per CPU-second, {rate / found['from_json']:.2f} times from_json")
    met = all(found[OURS] >= TARGET * rate for name, rate in found.items() if name != OURS)
    OUT.mkdir(exist_ok=True)
    path = OUT / f"spark-json-{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    document = {**machine(), "rows": options.rows, "per_cpu_second": found, "target": TARGET, "met": met}
    path.write_text(json.dumps(document, indent=1) + "\n")
    if not met:
        print(f"the aim is missed: {TARGET} times from_json", file=sys.stderr)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
