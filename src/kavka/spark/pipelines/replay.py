"""Dead letters read again: those that can be read by now go through the flow's function into its table.

A letter is a record with its place in headers, so its row is the one that the flow would have made of it. Letters that
still cannot be read are written to the dead letters once more, with the same place: the table remembers up to where
letters were taken, and none is forgotten.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.spark.brokers import bounds_of
from kavka.spark.dead_letters import OFFSET, PARTITION, TOPIC
from kavka.spark.lake.feed import add_batch
from kavka.spark.lake.table import Marks, open_table
from kavka.spark.offsets import to_json
from kavka.spark.options import COLUMNS, ERROR, HEADERS, source_options
from kavka.spark.pipelines.flows import decodes, source_settings, upserts
from kavka.spark.pipelines.project import transformation
from kavka.spark.pipelines.spec import Flow, Pipeline, Source, SpecError
from kavka.spark.registry.access import URL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_REPLAY: Final = "kavka-replay"
_NOT_OURS: Final = (
    "startingOffsets",
    "startingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBadRecords",
    "maxBadShare",
    "subscribePattern",
    "columns",
)


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many letters were looked at, and how many rows the table got."""

    letters: int
    rows: int


def replay(spark: SparkSession, pipeline: Pipeline, flow: Flow) -> Replayed:
    """Read a flow's dead letters from where the last replay ended."""
    spec, dead = flow.sink.table, flow.source.dead_letters
    if spec is None or dead is None or not decodes(flow.source):
        raise SpecError(f"flow {flow.name} does not decode values into a table with dead_letters: nothing to replay")
    if upserts(flow):
        raise SpecError(f"flow {flow.name} has upserts: a replay could bring back rows that were deleted since")
    _refuse_shared(pipeline, flow)
    settings = letter_settings(pipeline, flow.source, dead)
    table = open_table(spec)
    bounds = bounds_of(source_options(settings, streaming=False))
    names = {tp: f"{_REPLAY}/{flow.name}/{bounds.ids[tp.topic]}/{tp.partition}" for tp in bounds.latest}
    known = table.marks(names.values())
    start = {tp: max(bounds.earliest[tp], known.get(name, 0)) for tp, name in names.items()}
    if start == dict(bounds.latest):
        return Replayed(0, 0)
    settings["startingOffsets"] = json.dumps(to_json(start, {}))
    settings["endingOffsets"] = json.dumps(to_json(bounds.latest, {}))
    letters = spark.read.format("kavka").options(**settings).load()
    frame = transformation(pipeline, flow)(_shaped(flow, letters))
    query = f"{_REPLAY}/{flow.name}"
    last = table.last_batch(query)
    marks = Marks(
        {name: bounds.latest[tp] for tp, name in names.items()}, {name: known.get(name) for name in names.values()}
    )
    rows = add_batch(spec, query, frame, 0 if last is None else last + 1, lambda _: marks)
    return Replayed(sum(bounds.latest[tp] - start[tp] for tp in start), rows)


def letter_settings(pipeline: Pipeline, source: Source, dead: str) -> dict[str, str]:
    """The options that read the letters of a source as it reads its topic."""
    settings = {name: each for name, each in source_settings(pipeline, source).items() if name not in _NOT_OURS}
    if URL in settings and source.topic is not None:
        settings.setdefault("value.subject", f"{source.topic}-value")
    return settings | {"subscribe": dead, "columns": ",".join((*COLUMNS, HEADERS, ERROR))}


def _refuse_shared(pipeline: Pipeline, flow: Flow) -> None:
    """A letter says of which record it is, not which flow could not read it: this one may have its row already."""
    mine = flow.source
    for other in pipeline.flows:
        same = other.source.topic == mine.topic if mine.topic and other.source.topic else True
        if other.name != flow.name and other.source.dead_letters == mine.dead_letters and same:
            raise SpecError(
                f"flows {flow.name} and {other.name} read the same records and have the same dead letters: nobody "
                "knows whose they are. Give each flow its own, and a replay takes what comes from then on"
            )


def _shaped(flow: Flow, letters: DataFrame) -> DataFrame:
    """What the flow's function gets, as if it came from the topic: a letter that was written twice comes once."""
    from pyspark.sql import functions

    def header(name: str) -> Column:
        named = functions.filter(HEADERS, lambda each: each["key"] == name)
        return functions.try_element_at(named, functions.lit(-1))["value"].cast("string")

    placed = letters.where(functions.col(ERROR).isNull()).select(
        "value.*",
        functions.col("key").alias("_key"),
        header(TOPIC).alias("_topic"),
        header(PARTITION).cast("int").alias("_partition"),
        header(OFFSET).cast("long").alias("_offset"),
        functions.col("timestamp").alias("_timestamp"),
    )
    topic = functions.col("_topic")
    ours = topic == flow.source.topic if flow.source.topic else topic.rlike(f"^({flow.source.pattern})$")
    return placed.where(ours).dropDuplicates(["_topic", "_partition", "_offset"])
