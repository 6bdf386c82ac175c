"""From a flow to Spark: the frame it reads and transforms, and the query that writes it."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kavka.spark.advice import NO_WORKER
from kavka.spark.brokers import PlanningClient
from kavka.spark.connecting import connection_options
from kavka.spark.lake.feed import feed
from kavka.spark.lake.ranges import Origin, resumed
from kavka.spark.lake.table import open_table
from kavka.spark.lake.upsert import DELETED
from kavka.spark.offsets import DataLossError, continued, losses, to_json
from kavka.spark.options import BY_REGISTRY, COLUMNS, ERROR, source_options
from kavka.spark.pipelines.checkpoint import Checkpoint
from kavka.spark.pipelines.project import transformation
from kavka.spark.pipelines.spec import DEBEZIUM, JSON_SCHEMA, Flow, Pipeline, Sink, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ONCE: Final = "available-now"
DEAD_LETTERS: Final = "dead_letters"
"""The name under which Spark reports how many rows of a batch were bad."""
_STARTS: Final = 3
_SINK_COLUMNS: Final = ("key", "headers", "topic", "partition")


def source_settings(pipeline: Pipeline, source: Source) -> dict[str, str]:
    """The options of `format("kavka")` that a flow's source stands for."""
    options = connection_options(pipeline.bootstrap)
    options["startingTimestamp" if source.start.isdigit() else "startingOffsets"] = source.start
    options["subscribe" if source.topic is not None else "subscribePattern"] = source.topic or source.pattern or ""
    given = {
        "value.format": source.format,
        "value.schema": enveloped(source.schema) if wraps(source) else source.schema,
        "value.message": source.message,
        "deadLetterTopic": source.dead_letters,
        "maxBadRecords": None if source.max_bad_records is None else str(source.max_bad_records),
        "maxBadShare": None if source.max_bad_share is None else str(source.max_bad_share),
        "maxOffsetsPerTrigger": None if source.max_per_trigger is None else str(source.max_per_trigger),
    }
    options.update({name: value for name, value in given.items() if value is not None})
    if source.format in BY_REGISTRY and (source.schema is None or source.format == JSON_SCHEMA):
        options.update(pipeline.registry)
    if marks_bad(source):
        # Spark counts the rows that a source hands out: the bad ones are to be among them, and are dropped after that.
        options["columns"] = ",".join((*COLUMNS, ERROR))
    return {**options, **source.options}


def sink_settings(pipeline: Pipeline, sink: Sink) -> dict[str, str]:
    """The options of `format("kavka")` that a flow's sink stands for, if that is a topic."""
    options = {**connection_options(pipeline.bootstrap), "topic": sink.topic or ""}
    if sink.format is not None:
        options.update({"value.format": sink.format, **pipeline.registry})
    return {**options, **sink.options}


def decodes(source: Source) -> bool:
    """Whether a function gets the fields of values, not the records."""
    return source.format not in (None, "bytes", "text")


def marks_bad(source: Source) -> bool:
    """Whether a flow's source hands out bad rows too, with the reason in a column."""
    return decodes(source) and source.dead_letters is not None and "columns" not in source.options


def shaped(source: Source, frame: DataFrame, *, upserts: bool = False) -> DataFrame:
    """What a function gets: the fields of decoded values, with where they come from in columns with an underscore."""
    from pyspark.sql import functions

    if not decodes(source):
        return frame
    if marks_bad(source):
        bad = functions.count(ERROR).alias(DEAD_LETTERS)
        frame = frame.observe(DEAD_LETTERS, bad).where(functions.col(ERROR).isNull())
    origin = [functions.col(name).alias(f"_{name}") for name in ("key", "topic", "partition", "offset", "timestamp")]
    if source.envelope is not None:
        return changes(frame, origin, wrapped=wraps(source))
    if not upserts:
        return frame.select("value.*", *origin)
    return frame.select("value.*", *origin, functions.col("value").isNull().alias(DELETED))


def wraps(source: Source) -> bool:
    """Whether a source's schema is that of rows, and Debezium's envelope is around them."""
    return source.envelope == DEBEZIUM and source.format == "json"


def enveloped(schema: str | None) -> str:
    """The schema of Debezium's messages about rows of a schema, with the converter's own envelope or without."""
    rows = re.sub(r"\s+NOT\s+NULL\b", "", schema or "", flags=re.IGNORECASE)
    change = f"before STRUCT<{rows}>, after STRUCT<{rows}>, op STRING, ts_ms BIGINT"
    return f"{change}, payload STRUCT<{change}>"


def changes(frame: DataFrame, origin: Sequence[Column], *, wrapped: bool) -> DataFrame:
    """The rows of Debezium's messages: what is there after a change, or was before a deletion.

    A value that tells of no row fails the query: a table would be truncated, lack a deletion, or be fed with something
    else than Debezium's messages, and nobody would know.
    """
    from pyspark.sql import functions

    def part(name: str) -> Column:
        bare = functions.col(f"value.{name}")
        return functions.coalesce(bare, functions.col(f"value.payload.{name}")) if wrapped else bare

    gone = part("op") == "d"
    row = functions.when(gone, part("before")).otherwise(part("after"))
    # Tombstones say it once more, and `m` is a message of the database that has nothing to do with a row.
    told = frame.where(functions.col("value").isNotNull() & ~part("op").eqNullSafe("m")).withColumn("_row", row)
    lost = functions.raise_error(
        functions.concat_ws(
            " ",
            functions.lit("the value of"),
            functions.concat_ws("-", "topic", functions.col("partition").cast("string")),
            functions.lit("at offset"),
            functions.col("offset").cast("string"),
            functions.lit("is a change of Debezium's without a row: op is"),
            functions.coalesce(part("op"), functions.lit("null")),
        )
    )
    kind = told.schema["_row"].dataType
    told = told.withColumn(
        "_row", functions.when(functions.col("_row").isNull(), lost.cast(kind)).otherwise(told["_row"])
    )
    return told.select(
        "_row.*",
        *origin,
        part("op").alias("_op"),
        functions.timestamp_millis(part("ts_ms")).alias("_changed_at"),
        gone.alias(DELETED),
    )


def resuming(pipeline: Pipeline, flow: Flow) -> dict[str, str]:
    """The options by which a flow without a checkpoint goes on where its table ends; none if it never wrote there."""
    if flow.sink.table is None:
        return {}
    options = source_options(source_settings(pipeline, flow.source), streaming=True)
    brokers = PlanningClient(options)
    try:
        bounds = brokers.bounds(missing_ok=True)
    finally:
        brokers.close()
    start = resumed(open_table(flow.sink.table), flow.name, bounds.earliest, bounds.ids)
    if start is None:
        return {}
    lost = losses(start, {}, bounds.earliest, bounds.latest, {})
    if lost and options.fail_on_data_loss:
        raise DataLossError(lost)
    return {"startingOffsets": json.dumps(to_json(continued(start, {}, bounds.earliest, bounds.latest, {}), {}))}


def upserts(flow: Flow) -> bool:
    """Whether a flow's table has one row for each key."""
    return flow.sink.table is not None and flow.sink.table.upsert is not None


def streaming_frame(
    spark: SparkSession, pipeline: Pipeline, flow: Flow, place: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """A flow's transformed stream, from another place than its source says if one is given."""
    options = source_settings(pipeline, flow.source)
    if place:
        options.pop("startingTimestamp", None)
    reader = spark.readStream.format("kavka").options(**{**options, **place})
    frame: DataFrame = transformation(pipeline, flow)(shaped(flow.source, reader.load(), upserts=upserts(flow)))
    return frame


def batch_frame(spark: SparkSession, pipeline: Pipeline, flow: Flow, place: dict[str, str]) -> DataFrame:
    """The same transformation over what is there now, between two places."""
    options = source_settings(pipeline, flow.source)
    for name in ("startingOffsets", "startingTimestamp", "maxOffsetsPerTrigger"):
        options.pop(name, None)
    reader = spark.read.format("kavka").options(**{**options, **place})
    frame: DataFrame = transformation(pipeline, flow)(shaped(flow.source, reader.load(), upserts=upserts(flow)))
    return frame


def as_records(frame: DataFrame, form: str | None = None) -> DataFrame:
    """Rows as a topic takes them: those without a column `value` become JSON objects, or structs for a format."""
    from pyspark.sql import functions

    if "value" in frame.columns:
        return frame
    sink_columns = [name for name in _SINK_COLUMNS if name in frame.columns]
    content = [name for name in frame.columns if name not in sink_columns]
    row = functions.struct(*content)
    return frame.select(*sink_columns, (functions.to_json(row) if form is None else row).alias("value"))


def start_query(spark: SparkSession, pipeline: Pipeline, flow: Flow, *, once: bool) -> StreamingQuery:
    """Start a flow's query; it goes on where its checkpoint ends, or its table if there is no checkpoint."""
    checkpoint = Checkpoint(spark, pipeline.checkpoint_of(flow))
    frame = streaming_frame(spark, pipeline, flow, {} if checkpoint.exists() else resuming(pipeline, flow))
    writer: Any
    if flow.sink.table is not None:
        writer = frame.writeStream.foreachBatch(feed(flow.sink.table, Origin(flow.name, checkpoint.offsets)))
    else:
        writer = (
            as_records(frame, flow.sink.format)
            .writeStream.format("kavka")
            .options(**sink_settings(pipeline, flow.sink))
        )
    writer = writer.queryName(flow.name).outputMode(flow.sink.mode)
    writer = writer.option("checkpointLocation", pipeline.checkpoint_of(flow))
    if once or pipeline.trigger == ONCE:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=pipeline.trigger)
    query: StreamingQuery = writer.start()
    for _ in range(_STARTS - 1):
        if not _stillborn(query):
            break
        query = writer.start()
    return query


def _stillborn(query: StreamingQuery) -> bool:
    """Wait until a query has its sources; whether it died before because the machine was too busy to start Python."""
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.05)
    if query.isActive and not query.status["message"].startswith("Terminated"):
        return False
    with contextlib.suppress(Exception):  # it says the same as `exception`
        query.awaitTermination()
    return NO_WORKER in str(query.exception())
