"""Bulk work on whole topics and tables: compaction, mirroring, verification, and how things stand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kavka.client import ConfigResource, ConfigSource, NewTopic, ResourceType
from kavka.client.blocking import Client
from kavka.kernels.arrow import MAX_OFFSET, RecordColumns
from kavka.model.errors import KafkaError
from kavka.spark import reading
from kavka.spark.brokers import OffsetBounds, PlanningClient, bounds_of
from kavka.spark.columns import decode_batch
from kavka.spark.connecting import connection_options
from kavka.spark.lake.table import Compacted, TableSpec, Vacuumed, open_table
from kavka.spark.offsets import Range, continued, from_json, plan
from kavka.spark.options import AT_LEAST_ONCE, EXACTLY_ONCE, SourceOptions, source_options
from kavka.spark.pipelines.flows import source_settings
from kavka.spark.pipelines.progress import STATUS
from kavka.spark.pipelines.running import is_running
from kavka.spark.pipelines.spec import Flow, Pipeline, SpecError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TARGET: Final = 128 << 20
_OF_THE_CLUSTER: Final = (
    "leader.replication.",
    "follower.replication.",
    "remote.",
    "local.retention.",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "message.timestamp.",
)
"""Settings of topics that tell of brokers, need what another cluster need not have, or would change a copy's times."""
# A hash passes over what is null: it is told, so that a key is no value. The sum is more than a bigint holds.
_TOLD: Final = (
    "key IS NULL, value IS NULL, transform(headers, each -> struct(each.key, each.value IS NULL, each.value))"
)
CONTENT: Final = f"sum(cast(xxhash64({_TOLD}, key, value, timestamp) AS decimal(38, 0)))"
"""A number that all records have a part in, whatever their offsets and order."""


def compact(pipeline: Pipeline, target_bytes: int = DEFAULT_TARGET) -> dict[str, Compacted]:
    """Compact the tables of a pipeline."""
    return {name: open_table(table).compact(target_bytes) for name, table in _tables(pipeline).items()}


def vacuum(pipeline: Pipeline, keep_hours: int, *, dry: bool) -> dict[str, Vacuumed]:
    """Delete what versions of tables need that are older, and what never became part of a table."""
    older_than_ms = int(time.time() * 1000) - keep_hours * 3_600_000
    return {name: open_table(table).vacuum(older_than_ms, dry=dry) for name, table in _tables(pipeline).items()}


def _tables(pipeline: Pipeline) -> dict[str, TableSpec]:
    tables = {flow.name: flow.sink.table for flow in pipeline.flows if flow.sink.table is not None}
    if not tables:
        raise SpecError("no flow of this pipeline writes to a table")
    return tables


def status(pipeline: Pipeline) -> list[dict[str, Any]]:
    """How each flow stands: its last batch, how far it is behind, and how fresh its table is."""
    path = pipeline.folder / STATUS
    reported: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    alive = is_running(pipeline.folder)
    rows = []
    for flow in pipeline.flows:
        last = reported.get(flow.name, {})
        state = last.get("state", "never run")
        row: dict[str, Any] = {
            "flow": flow.name,
            "state": "died" if state == "running" and not alive else state,
            "batch": last.get("batch"),
            "lag": lag(pipeline, flow),
        }
        if flow.sink.table is not None:
            fresh = open_table(flow.sink.table).freshness()
            age = None if fresh.last_commit_ms is None else round(time.time() - fresh.last_commit_ms / 1000, 1)
            row.update(table_rows=fresh.rows, table_files=fresh.files, seconds_since_commit=age)
        rows.append(row)
    return rows


def lag(pipeline: Pipeline, flow: Flow) -> int | None:
    """How many offsets a flow has not read yet, by its checkpoint and what the brokers say now; None: never run."""
    here = checkpointed(Path(pipeline.checkpoint_of(flow)))
    if here is None:
        return None
    brokers = PlanningClient(source_options(source_settings(pipeline, flow.source), streaming=True))
    try:
        bounds = brokers.bounds(missing_ok=True)
    finally:
        brokers.close()
    return behind(here, bounds)


def behind(here: Mapping[str, Any], bounds: OffsetBounds) -> int:
    """How many offsets lie between a checkpoint and the ends of topics; all of them, if the topic is another one."""
    offsets, ids = from_json(here)
    begin = continued(offsets, ids, bounds.earliest, bounds.latest, bounds.ids)
    return sum(end - begin[tp] for tp, end in bounds.latest.items())


def checkpointed(folder: Path) -> dict[str, Any] | None:
    """The offsets that a checkpoint says are done."""
    commits = [int(path.name) for path in (folder / "commits").glob("[0-9]*") if path.name.isdigit()]
    if not commits:
        return None
    lines = (folder / "offsets" / str(max(commits))).read_text().splitlines()
    document: dict[str, Any] = json.loads(lines[2])
    return document


def mirror(
    spark: SparkSession,
    source: Mapping[str, str],
    target: str,
    rename: Mapping[str, str],
    checkpoint: str,
    *,
    once: bool,
    compression: str = "none",
    exactly_once: bool = False,
) -> Any:
    """Copy topics to another cluster (or to other names), keeping keys, headers, partitions and times.

    At least once, or exactly once; what was committed alone.
    """
    from pyspark.sql import functions

    # An aborted record would be one like any other on the other side.
    given = {"startingOffsets": "earliest", "includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    options = {**given, **source}
    create_targets(source_options(options, streaming=True), target, rename)
    frame = spark.readStream.format("kavka").options(**options).load()
    named = functions.col("topic")
    for old, new in rename.items():
        named = functions.when(functions.col("topic") == old, new).otherwise(named)
    writer = (
        frame.select("key", "value", "headers", "partition", "timestamp", named.alias("topic"))
        .writeStream.format("kavka")
        .options(**connection_options(target))
        .option("useTimestampColumn", "true")
        .option("kafka.compression.type", compression)
        .option("delivery", EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE)
        .option("checkpointLocation", checkpoint)
        .queryName("mirror")
    )
    return writer.trigger(availableNow=True).start() if once else writer.trigger(processingTime="1 second").start()


def create_targets(options: SourceOptions, target: str, rename: Mapping[str, str]) -> None:
    """Create the topics that are not there, with the partitions and settings of those they are copied from.

    A topic that would be copied into one of those that are read is refused: it would never come to an end.
    """
    brokers = PlanningClient(options)
    try:
        partitions, ids = brokers.partitions()
    finally:
        brokers.close()
    counts: dict[str, int] = {}
    for topic, partition in partitions:
        name = rename.get(topic, topic)
        counts[name] = max(counts.get(name, 0), partition + 1)
    with Client(target) as client:
        there = client.run(client.pool.refresh(set(ids)))
        itself = sorted(
            topic
            for topic in {rename.get(each, each) for each in ids}
            if topic in ids and topic in there.topics and str(there.topics[topic].id) == ids[topic]
        )
        if itself:
            raise SpecError(
                f"{', '.join(itself)} would be copied onto itself: name another cluster, or other names (--rename)"
            )
        known = {topic.name for topic in client.admin.list_topics()}
        missing = {name: count for name, count in counts.items() if name not in known}
        if missing:
            configs = topic_configs(options.bootstrap, {topic: rename.get(topic, topic) for topic in ids})
            client.admin.create_topics(
                [NewTopic(name, partitions=count, configs=configs[name]) for name, count in missing.items()]
            )


def topic_configs(bootstrap: str, names: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What was set for topics themselves, by the names that they are given elsewhere; not what is of their cluster."""
    found: dict[str, dict[str, str]] = {}
    with Client(bootstrap) as client:
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in names]
        for resource, entries in client.admin.describe_configs(*resources).items():
            own = (entry for entry in entries.values() if entry.source is ConfigSource.TOPIC)
            found[names[resource.name]] = {
                entry.name: entry.value
                for entry in own
                if entry.value is not None and not entry.name.startswith(_OF_THE_CLUSTER)
            }
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """A partition, and how many records it has on either side of a mirror."""

    topic: str
    partition: int
    records: int
    copied: int
    equal: bool
    """Whether their keys, values, headers and times are the same, whatever their offsets and order."""


def compare(spark: SparkSession, source: Mapping[str, str], target: str, rename: Mapping[str, str]) -> list[Compared]:
    """Whether topics and their copies have the same committed records, partition by partition."""
    topics = [topic.strip() for topic in source["subscribe"].split(",")]
    copies = {rename.get(topic, topic): topic for topic in topics}
    if len(copies) < len(set(topics)):
        raise SpecError("two topics have one copy: it is like none of them")
    there = _contents(spark, {**source, "subscribe": ",".join(topics)})
    copied = _contents(spark, {**connection_options(target), "subscribe": ",".join(copies)})
    by_source = {(copies[topic], partition): found for (topic, partition), found in copied.items()}
    nothing = (0, None)
    found = []
    for place in sorted(there.keys() | by_source.keys()):
        here, copy = there.get(place, nothing), by_source.get(place, nothing)
        found.append(Compared(*place, here[0], copy[0], here == copy))
    return found


def _contents(spark: SparkSession, options: Mapping[str, str]) -> dict[tuple[str, int], tuple[int, Any]]:
    """By topic and partition: how many committed records there are, and a number that all of them have a part in."""
    from pyspark.sql import functions

    given = {"includeHeaders": "true", "kafka.isolation.level": "read_committed", **options}
    frame = spark.read.format("kavka").options(**given).load()
    rows = frame.groupBy("topic", "partition").agg(functions.expr("count(*)"), functions.expr(CONTENT))
    return {(row[0], row[1]): (row[2], row[3]) for row in rows.collect()}


@dataclass(frozen=True, slots=True)
class Verified:
    """What is in a range, and what is wrong with it."""

    topic: str
    partition: int
    start: int
    end: int
    batches: int
    records: int
    gaps: int
    fault: str | None


def verify(spark: SparkSession, options: Mapping[str, str], pieces: int = 8) -> list[Verified]:
    """Read every batch of some topics in parallel: CRC, sizes, records, and whether offsets go on without gaps."""
    read = source_options(options, streaming=False)
    bounds = bounds_of(read)
    ranges = plan(bounds.earliest, bounds.latest, min_partitions=pieces)
    if not ranges:
        return []
    found: list[Verified] = (
        spark.sparkContext.parallelize(ranges, len(ranges)).flatMap(lambda part: list(_verified(part, read))).collect()
    )
    return found


def _verified(part: Range, options: SourceOptions) -> Iterator[Verified]:
    batches = records = gaps = 0
    expected = part.start
    fault = None
    columns = RecordColumns(False, False, False)
    try:
        for chunk in reading.chunks(part, options, None):
            for info in chunk.batches:
                if info.base_offset >= part.end:
                    break
                gaps += max(0, info.base_offset - expected)
                expected = info.last_offset + 1
                batches += 1
                if not info.is_control:
                    columns.clear()
                    # A batch on the edge of two ranges is looked at in both and counted record by record in its own.
                    records += decode_batch(columns, chunk.data, info, part.start, min(part.end, MAX_OFFSET))
    except (KafkaError, ValueError) as error:
        fault = f"at offset {expected}: {error}"
    tp = part.topic_partition
    yield Verified(tp.topic, tp.partition, part.start, part.end, batches, records, gaps, fault)
