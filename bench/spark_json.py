"""How much CPU does it take Spark to decode JSON? `python -m bench.spark_json [--rows N] [--connector JARS]`.

One topic of orders is read into noop three ways in turns: `value.format=json`, the same source with Spark's `from_json`
(FAILFAST), and, with its jars, Spark's own Kafka connector with `from_json`. A figure is rows per CPU-second of Spark
and its Python workers, the best of three; the broker's are not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from kavka.client import NewTopic, Pool, Producer
from kavka.client.blocking import Client
from kavka.testing import Cluster

TOPIC = "orders"
RUNS = 3
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
        "value.format=json": lambda: read(
            "kavka", **{"value.format": "json", "value.schema": SCHEMA, "columns": "value"}
        ).select("value.*"),
        "from_json": lambda: from_json(read("kavka", columns="value")),
    }
    if jars:
        found["Spark's connector, from_json"] = lambda: from_json(read("kafka"))
    return found


def measured(rows: int, jars: str | None) -> dict[str, float]:
    """Rows per CPU-second of each way."""
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
        finally:
            spark.stop()
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_json", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--connector", metavar="JARS", help="the jars of Spark's Kafka connector, with commas between")
    options = parser.parse_args()
    found = measured(options.rows, options.connector)
    for name, rate in found.items():
        print(f"{name}: {rate:,.0f} rows per CPU-second, {rate / found['from_json']:.2f} times from_json")


if __name__ == "__main__":
    main()
