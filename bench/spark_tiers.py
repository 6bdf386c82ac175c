"""What does a scan of tiered history cost the broker? `python -m bench.spark_tiers [--megabytes N] [--runs N]`.

One topic, nine tenths or more of which are only in the store (a directory), is read whole by Spark, in turns: through
the broker, and with `kavka.remote.storage.url`, as read_uncommitted and as read_committed; a tenth of the transactions
in it were aborted. The rows of both ways are compared by a sum of hashes. Figures are the best of the runs. The exit
code is 1 where an aim is missed (less than 2 % of the broker's CPU time, 1.5 times the rows per second), and 2 where
rows differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from bench.node import Node
from bench.report import OUT, machine
from kavka.client import NewTopic, Pool, Producer
from kavka.client.blocking import Client
from kavka.client.offsets import list_offsets
from kavka.model.types import TopicPartition
from kavka.testing import Cluster

MIB = 1 << 20
TOPIC = "history"
PARTITIONS = 4
SIZE = 1000
PER_TRANSACTION = 5_000
EARLIEST_LOCAL, LATEST = -4, -1
PATIENCE_S = 300.0
LEAST_SPEEDUP, MOST_CPU_PERCENT = 1.5, 2.0
NODE = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


@dataclass(frozen=True, slots=True)
class Scan:
    """One reading of the whole topic."""

    seconds: float
    broker_cpu: float
    rows: int
    hashes: str


async def fill(bootstrap: str, megabytes: int) -> None:
    """Write transactions of one partition after the other; each tenth is aborted."""
    values = [os.urandom(SIZE // 2) + b"x" * (SIZE - SIZE // 2) for _ in range(997)]
    count = megabytes * MIB // (SIZE + 20)
    async with (
        Pool(bootstrap) as pool,
        Producer(pool, transactional_id="fill", batch_bytes=256 << 10, linger_ms=50) as producer,
    ):
        for turn, first in enumerate(range(0, count, PER_TRANSACTION)):
            producer.begin()
            for number in range(first, min(count, first + PER_TRANSACTION)):
                await producer.send(
                    TOPIC, values[number % len(values)], key=b"%d" % number, partition=turn % PARTITIONS
                )
            await (producer.abort() if turn % 10 == 9 else producer.commit())


async def only_in_the_store(bootstrap: str) -> float:
    """Which share of the offsets is on no disk of the broker's."""
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    async with Pool(bootstrap) as pool:
        local = await list_offsets(pool, dict.fromkeys(places, EARLIEST_LOCAL))
        ends = await list_offsets(pool, dict.fromkeys(places, LATEST))
    return sum(each.offset for each in local.values()) / sum(each.offset for each in ends.values())


def tiered(bootstrap: str, share: float = 0.9) -> float:
    """Wait until most of the topic is only in the store; which share is."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := asyncio.run(only_in_the_store(bootstrap))) < share:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {found:.0%} is in the store alone after {PATIENCE_S:.0f} s")
        time.sleep(0.5)
    return found


def scan(spark: Any, node: Node, store: str | None, isolation: str, *, check: bool) -> Scan:
    """Read the topic into noop; or sum up hashes of all rows, which costs Spark more than reading them."""
    from pyspark.sql import functions as f

    reader = spark.read.format("kavka").option("kafka.bootstrap.servers", node.bootstrap).option("subscribe", TOPIC)
    reader = reader.option("kafka.isolation.level", isolation)
    if store is not None:
        reader = reader.option("kavka.remote.storage.url", store)
    frame = reader.load()
    cpu, began = node.cpu_seconds(), time.perf_counter()
    if check:
        hashed = f.xxhash64("key", "value", "partition", "offset", "timestamp").cast("decimal(38, 0)")
        (row,) = frame.agg(f.count(f.lit(1)), f.sum(hashed)).collect()
        rows, hashes = row
    else:
        frame.write.format("noop").mode("overwrite").save()
        rows, hashes = 0, None
    return Scan(time.perf_counter() - began, node.cpu_seconds() - cpu, rows, str(hashes))


def compared(spark: Any, node: Node, store: str, isolation: str, runs: int) -> dict[str, Any]:
    """Both ways in turns."""
    same = [scan(spark, node, way, isolation, check=True) for way in (None, store)]
    through, direct = [], []
    for _ in range(runs):
        through.append(scan(spark, node, None, isolation, check=False))
        direct.append(scan(spark, node, store, isolation, check=False))
    rows = same[0].rows
    best = [min(each.seconds for each in scans) for scans in (through, direct)]
    cpu = [min(each.broker_cpu for each in scans) for scans in (through, direct)]
    speedup, percent = best[0] / best[1], 100 * cpu[1] / cpu[0]
    return {
        "isolation": isolation,
        "rows": rows,
        "equal": (same[0].rows, same[0].hashes) == (same[1].rows, same[1].hashes),
        "through_rows_per_second": round(rows / best[0]),
        "direct_rows_per_second": round(rows / best[1]),
        "speedup": round(speedup, 2),
        "through_broker_cpu_s": round(cpu[0], 2),
        "direct_broker_cpu_s": round(cpu[1], 2),
        "broker_cpu_percent": round(percent, 2),
        "met": speedup >= LEAST_SPEEDUP and percent < MOST_CPU_PERCENT,
    }


def main() -> int:
    """Fill, wait for the tier, measure, print a line of JSON for each level of isolation."""
    from kavka.spark.session import start

    parser = argparse.ArgumentParser(prog="python -m bench.spark_tiers", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--folder", help="where node and store have room")
    options = parser.parse_args()
    segment = max(MIB, options.megabytes * MIB // (PARTITIONS * 32))
    configs = {"remote.storage.enable": "true", "local.retention.bytes": "1", "retention.ms": "-1"}
    configs["segment.bytes"] = str(segment)
    found = []
    with tempfile.TemporaryDirectory(prefix="kavka-bench-", dir=options.folder) as folder:
        store = f"file://{folder}/store"
        with Cluster(config={**NODE, "kavka.remote.storage.url": store}, data_dir=f"{folder}/node") as cluster:
            node = Node(cluster.bootstrap, cluster.pid)
            with Client(node.bootstrap) as client:
                client.admin.create_topics([NewTopic(TOPIC, partitions=PARTITIONS, configs=configs)])
            began = time.monotonic()
            asyncio.run(fill(node.bootstrap, options.megabytes))
            share = tiered(node.bootstrap)
            print(f"{share:.1%} is in the store alone, after {time.monotonic() - began:.0f} s", file=sys.stderr)
            spark = start("bench", memory="2g")
            try:
                for isolation in ("read_uncommitted", "read_committed"):
                    found.append(compared(spark, node, store, isolation, options.runs))
                    print(json.dumps(found[-1]), flush=True)
            finally:
                spark.stop()
    OUT.mkdir(exist_ok=True)
    path = OUT / f"spark-tiers-{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    path.write_text(json.dumps({**machine(), "megabytes": options.megabytes, "tiered": share, "rows": found}) + "\n")
    if not all(row["equal"] for row in found):
        return 2
    return 0 if all(row["met"] for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
