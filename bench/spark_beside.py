"""Is it better than Spark's own connector? `python -m bench.spark_beside --connector JARS [--rows N] [--only CASE]`.

The same jobs through both, in turns, in one session and on one node: a batch into noop, with headers too, a stream into
noop, a batch into a topic, many partitions of 1,000 records, and a partition that has nearly all and is split. `python
tools/spark_jars/fetch.py` prints JARS. A ratio is of seconds, or of CPU-seconds of Spark and its Python workers without
the broker's; the best run counts. Both must have the same rows. The exit code is 1 where an aim is missed, and 2 where
rows differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bench.report import OUT, machine
from bench.spark_json import cpu_seconds
from kavka.client import NewTopic, Pool, Producer
from kavka.client.blocking import Client
from kavka.testing import Cluster

OURS, THEIRS = "kavka", "kafka"
PLAIN, HEADED, TARGET, MANY, SKEWED = "plain", "headed", "target", "many", "skewed"
PARTITIONS = 4
PER_PARTITION = 1_000
SIZE = 100


class RowsDifferError(Exception):
    """The two sources have not done the same."""


@dataclass(frozen=True, slots=True)
class Case:
    """A job, how it is seen that both do the same, and how much better ours is to be."""

    name: str
    job: Callable[[Any, str, str, int], None]
    told: Callable[[Any, str, str, int], Any]
    """What a source's rows are, in short; asked of both after the last run."""
    target: float
    by_cpu: bool = False


def reader(spark: Any, source: str, bootstrap: str, topic: str, *, streaming: bool = False, **options: str) -> Any:
    """A source over a whole topic, unless options say where it begins."""
    made = (spark.readStream if streaming else spark.read).format(source).option("kafka.bootstrap.servers", bootstrap)
    return made.option("subscribe", topic).options(**{"startingOffsets": "earliest", **options}).load()


def batch(spark: Any, source: str, bootstrap: str, rows: int) -> None:
    """All columns of a topic into noop."""
    reader(spark, source, bootstrap, PLAIN).write.format("noop").mode("overwrite").save()


def headers(spark: Any, source: str, bootstrap: str, rows: int) -> None:
    """The same with headers."""
    frame = reader(spark, source, bootstrap, HEADED, includeHeaders="true")
    frame.write.format("noop").mode("overwrite").save()


def stream(spark: Any, source: str, bootstrap: str, rows: int) -> None:
    """The topic as a stream of ten or so batches."""
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as folder:
        frame = reader(spark, source, bootstrap, PLAIN, streaming=True, maxOffsetsPerTrigger=str(rows // 10))
        query = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query.trigger(availableNow=True).start().awaitTermination()


def write(spark: Any, source: str, bootstrap: str, rows: int) -> None:
    """Rows into a topic."""
    value = "rpad(cast(id as string), 100, 'x') as value"
    frame = spark.range(0, rows, 1, 2).selectExpr("cast(id as string) as key", value)
    writer = frame.write.format(source).option("kafka.bootstrap.servers", bootstrap).option("topic", TARGET)
    writer.mode("append").save()


def many(spark: Any, source: str, bootstrap: str, rows: int) -> None:
    """Many partitions with few records each."""
    reader(spark, source, bootstrap, MANY).write.format("noop").mode("overwrite").save()


def skew(spark: Any, source: str, bootstrap: str, rows: int) -> None:
    """Nine tenths in one of four partitions, which is split."""
    frame = reader(spark, source, bootstrap, SKEWED, minPartitions=str(2 * PARTITIONS))
    frame.write.format("noop").mode("overwrite").save()


def sums(frame: Any) -> tuple[int, Decimal]:
    """How many rows there are, and a number that all their columns have a part in."""
    columns = ", ".join(sorted(frame.columns))
    # A decimal: such numbers of a million rows are more than a bigint holds.
    row = frame.selectExpr("count(*)", f"sum(cast(xxhash64({columns}) AS decimal(38, 0)))").first()
    return row[0], row[1] or Decimal(0)


def read_plain(spark: Any, source: str, bootstrap: str, rows: int) -> tuple[int, Decimal]:
    """What a source reads of the plain topic."""
    return sums(reader(spark, source, bootstrap, PLAIN))


def read_headed(spark: Any, source: str, bootstrap: str, rows: int) -> tuple[int, Decimal]:
    """What a source reads of the topic with headers."""
    return sums(reader(spark, source, bootstrap, HEADED, includeHeaders="true"))


def read_many(spark: Any, source: str, bootstrap: str, rows: int) -> tuple[int, Decimal]:
    """What a source reads of the topic with many partitions."""
    return sums(reader(spark, source, bootstrap, MANY))


def read_skewed(spark: Any, source: str, bootstrap: str, rows: int) -> tuple[int, Decimal]:
    """What a source reads of the topic with one large partition."""
    return sums(reader(spark, source, bootstrap, SKEWED, minPartitions=str(2 * PARTITIONS)))


def streamed(spark: Any, source: str, bootstrap: str, rows: int) -> tuple[int, Decimal]:
    """What a source streams of the plain topic."""
    found: list[tuple[int, Decimal]] = []
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as folder:
        frame = reader(spark, source, bootstrap, PLAIN, streaming=True, maxOffsetsPerTrigger=str(rows // 10))
        query = frame.writeStream.foreachBatch(lambda batch, _: found.append(sums(batch)))
        query.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()
    return sum(count for count, _ in found), sum((number for _, number in found), Decimal(0))


def written(spark: Any, source: str, bootstrap: str, rows: int) -> list[tuple[int, int]]:
    """How often a source has written each record, and how many so often, when it has written them all once more."""
    ends = reader(spark, THEIRS, bootstrap, TARGET).groupBy("partition").agg({"offset": "max"}).collect()
    write(spark, source, bootstrap, rows)
    starts = json.dumps({TARGET: {str(row[0]): row[1] + 1 for row in ends}})
    added = reader(spark, THEIRS, bootstrap, TARGET, startingOffsets=starts)
    counted = added.groupBy("key", "value").count().groupBy("count").count().collect()
    return sorted((row[0], row[1]) for row in counted)


CASES = (
    Case("batch", batch, read_plain, 3),
    Case("headers", headers, read_headed, 2),
    Case("stream", stream, streamed, 1.3, by_cpu=True),
    Case("write", write, written, 1.3, by_cpu=True),
    Case("many", many, read_many, 3),
    Case("skew", skew, read_skewed, 3),
)


async def fill(bootstrap: str, topic: str, rows: int, partitions: int, *, headed: bool = False) -> None:
    """Write a topic."""
    value = b"x" * SIZE
    async with Pool(bootstrap) as pool, Producer(pool, batch_bytes=128 << 10, linger_ms=50) as producer:
        each = 1000
        for number in range(rows):
            small = topic != SKEWED or number // each % 10 == 9
            await producer.send(
                topic,
                value,
                key=b"%d" % number,
                partition=number // each % partitions if small else 0,
                headers=[("trace", b"%032d" % number), ("source", b"web")] if headed else (),
            )


def measured(case: Case, spark: Any, cluster: Cluster, rows: int, runs: int) -> dict[str, Any]:
    """Both sources in turns; the first run of each warms up, where there are several."""
    seconds: dict[str, list[float]] = {OURS: [], THEIRS: []}
    cpu: dict[str, list[float]] = {OURS: [], THEIRS: []}
    for _ in range(runs):
        for source in (OURS, THEIRS):
            before, began = cpu_seconds(cluster.pid), time.perf_counter()
            case.job(spark, source, cluster.bootstrap, rows)
            seconds[source].append(time.perf_counter() - began)
            cpu[source].append(cpu_seconds(cluster.pid) - before)
    told = {source: case.told(spark, source, cluster.bootstrap, rows) for source in (OURS, THEIRS)}
    if told[OURS] != told[THEIRS]:
        raise RowsDifferError(f"{case.name}: {told[OURS]} by {OURS}, {told[THEIRS]} by {THEIRS}")
    best = {source: (min(seconds[source]), min(cpu[source])) for source in (OURS, THEIRS)}
    ratio = best[THEIRS][case.by_cpu] / best[OURS][case.by_cpu]
    return {
        "case": case.name,
        "rows": rows,
        **{f"{source}_seconds": round(best[source][0], 2) for source in best},
        **{f"{source}_cpu_seconds": round(best[source][1], 2) for source in best},
        "ratio": round(ratio, 2),
        "by": "CPU-seconds" if case.by_cpu else "seconds",
        "target": case.target,
        "met": ratio >= case.target,
    }


def main() -> int:
    """Measure what was asked for and print a line for each."""
    from kavka.spark.session import start

    parser = argparse.ArgumentParser(prog="python -m bench.spark_beside", description=__doc__)
    parser.add_argument("--connector", metavar="JARS", required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=2_000, help="of the case `many`")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES])
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.only or case.name in options.only]
    names = {case.name for case in chosen}
    found = []
    with Cluster(config={"log.retention.ms": "-1"}, timeout=120) as cluster:
        wanted = [(PLAIN, PARTITIONS, {"batch", "stream"}), (HEADED, PARTITIONS, {"headers"}), (TARGET, 2, {"write"})]
        wanted += [(MANY, options.partitions, {"many"}), (SKEWED, PARTITIONS, {"skew"})]
        with Client(cluster.bootstrap) as client:
            client.admin.create_topics([NewTopic(t, partitions=p) for t, p, of in wanted if of & names])
        for topic, partitions, of in wanted:
            if of & names and topic != TARGET:
                rows = partitions * PER_PARTITION if topic == MANY else options.rows
                asyncio.run(fill(cluster.bootstrap, topic, rows, partitions, headed=topic == HEADED))
        spark = start("bench", conf={"spark.jars": options.connector})
        try:
            for case in chosen:
                rows = options.partitions * PER_PARTITION if case.name == "many" else options.rows
                found.append(measured(case, spark, cluster, rows, 1 if case.name == "many" else options.runs))
                print(json.dumps(found[-1]), flush=True)
        except RowsDifferError as error:
            print(error, file=sys.stderr)
            return 2
        finally:
            spark.stop()
    OUT.mkdir(exist_ok=True)
    path = OUT / f"spark-beside-{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    path.write_text(json.dumps({**machine(), "rows": found}, indent=1) + "\n")
    missed = [row["case"] for row in found if not row["met"]]
    if missed:
        print(f"aims missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
