"""From a flow to Spark: the frame it reads and transforms, and the query that writes it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from kavka.spark.advice import NO_WORKER
from kavka.spark.lake.feed import feed
from kavka.spark.lake.ranges import Origin
from kavka.spark.options import COLUMNS, ERROR
from kavka.spark.pipelines.checkpoint import Checkpoint
from kavka.spark.pipelines.project import transformation
from kavka.spark.pipelines.spec import Flow, Pipeline, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ONCE: Final = "available-now"
DEAD_LETTERS: Final = "dead_letters"
"""The name under which Spark reports how many rows of a batch were bad."""
_STARTS: Final = 3
_SINK_COLUMNS: Final = ("key", "headers", "topic", "partition")


def source_settings(pipeline: Pipeline, source: Source) -> dict[str, str]:
    """The options of `format("kavka")` that a flow's source stands for."""
    options = {"kafka.bootstrap.servers": pipeline.bootstrap, "startingOffsets": source.start}
    if source.start.isdigit():
        options = {"kafka.bootstrap.servers": pipeline.bootstrap, "startingTimestamp": source.start}
    options["subscribe" if source.topic is not None else "subscribePattern"] = source.topic or source.pattern or ""
    given = {
        "value.format": source.format,
        "value.schema": source.schema,
        "value.message": source.message,
        "deadLetterTopic": source.dead_letters,
        "maxOffsetsPerTrigger": None if source.max_per_trigger is None else str(source.max_per_trigger),
    }
    options.update({name: value for name, value in given.items() if value is not None})
    if marks_bad(source):
        # Spark counts the rows that a source hands out: the bad ones are to be among them, and are dropped after that.
        options["columns"] = ",".join((*COLUMNS, ERROR))
    return {**options, **source.options}


def decodes(source: Source) -> bool:
    """Whether a function gets the fields of values, not the records."""
    return source.format not in (None, "bytes", "text")


def marks_bad(source: Source) -> bool:
    """Whether a flow's source hands out bad rows too, with the reason in a column."""
    return decodes(source) and source.dead_letters is not None and "columns" not in source.options


def shaped(source: Source, frame: DataFrame) -> DataFrame:
    """What a function gets: the fields of decoded values, with where they come from in columns with an underscore."""
    from pyspark.sql import functions

    if not decodes(source):
        return frame
    if marks_bad(source):
        bad = functions.count(ERROR).alias(DEAD_LETTERS)
        frame = frame.observe(DEAD_LETTERS, bad).where(functions.col(ERROR).isNull())
    origin = ("key", "topic", "partition", "offset", "timestamp")
    return frame.select("value.*", *(functions.col(name).alias(f"_{name}") for name in origin))


def streaming_frame(spark: SparkSession, pipeline: Pipeline, flow: Flow) -> DataFrame:
    """A flow's transformed stream."""
    reader = spark.readStream.format("kavka").options(**source_settings(pipeline, flow.source))
    frame: DataFrame = transformation(pipeline, flow)(shaped(flow.source, reader.load()))
    return frame


def batch_frame(spark: SparkSession, pipeline: Pipeline, flow: Flow, place: dict[str, str]) -> DataFrame:
    """The same transformation over what is there now, between two places."""
    options = source_settings(pipeline, flow.source)
    for name in ("startingOffsets", "startingTimestamp", "maxOffsetsPerTrigger"):
        options.pop(name, None)
    reader = spark.read.format("kavka").options(**{**options, **place})
    frame: DataFrame = transformation(pipeline, flow)(shaped(flow.source, reader.load()))
    return frame


def as_records(frame: DataFrame) -> DataFrame:
    """Rows as a topic takes them: those without a column `value` become JSON objects."""
    from pyspark.sql import functions

    if "value" in frame.columns:
        return frame
    kept = [name for name in _SINK_COLUMNS if name in frame.columns]
    content = [name for name in frame.columns if name not in kept]
    return frame.select(*kept, functions.to_json(functions.struct(*content)).alias("value"))


def start_query(spark: SparkSession, pipeline: Pipeline, flow: Flow, *, once: bool) -> StreamingQuery:
    """Start a flow's query; it goes on where its checkpoint ends."""
    frame = streaming_frame(spark, pipeline, flow)
    writer: Any
    if flow.sink.table is not None:
        begins = Checkpoint(spark, pipeline.checkpoint_of(flow)).begins
        writer = frame.writeStream.foreachBatch(feed(flow.sink.table, Origin(flow.name, begins)))
    else:
        options = {"kafka.bootstrap.servers": pipeline.bootstrap, "topic": flow.sink.topic or "", **flow.sink.options}
        writer = as_records(frame).writeStream.format("kavka").options(**options)
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
