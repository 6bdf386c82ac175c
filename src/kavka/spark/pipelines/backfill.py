"""Writing a topic's history into a flow's table: what the flow's stream does not write, and each offset once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kavka.model.types import TopicPartition
from kavka.spark.brokers import OffsetBounds, PlanningClient
from kavka.spark.lake.feed import add_batch
from kavka.spark.lake.ranges import Span, backfill_marks, backfill_query, backfilled, began, without
from kavka.spark.lake.table import LakeError, Marks, TableSpec, open_table
from kavka.spark.offsets import EARLIEST, to_json
from kavka.spark.options import source_options
from kavka.spark.pipelines.checkpoint import Checkpoint
from kavka.spark.pipelines.flows import batch_frame, source_settings, upserts
from kavka.spark.pipelines.spec import Flow, Pipeline, SpecError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDS: Final = ("endingOffsets", "endingTimestamp")


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill did, and what it left."""

    rows: int
    said: tuple[str, ...]
    """For people: what was not written, and why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges that a backfill writes, one commit after the other, and what it has to say."""

    rounds: tuple[Mapping[TopicPartition, Span], ...]
    said: tuple[str, ...]


def backfill(spark: SparkSession, pipeline: Pipeline, flow: Flow, place: Mapping[str, str]) -> Backfilled:
    """Write what lies between two places through a flow's function into its table, without what it has already.

    Without an ending place it ends where the flow's stream began, or will begin.
    """
    spec = flow.sink.table
    if spec is None:
        raise SpecError(f"flow {flow.name} writes to a topic: backfill is for tables")
    if upserts(flow):
        raise SpecError(
            f"flow {flow.name} has upserts: a backfill could bring back rows that were deleted since. "
            "A flow of another name, with start: earliest, makes the table anew"
        )
    stream_only = ("startingOffsets", "startingTimestamp", "maxOffsetsPerTrigger")
    settings = {name: each for name, each in source_settings(pipeline, flow.source).items() if name not in stream_only}
    brokers = PlanningClient(source_options({**settings, **place}, streaming=False))
    try:
        bounds = brokers.bounds()
        start = brokers.starting(bounds)
        end = brokers.ending(bounds) if any(name in place for name in _ENDS) else None
        stream = _began(spark, pipeline, flow, spec, bounds)
        if not stream and not Checkpoint(spark, pipeline.checkpoint_of(flow)).exists():
            # It never ran. A backfill that says where it ends comes first, and the stream has to begin after it.
            stream = _will_begin(brokers, flow, bounds) if end is None else {}
        done = backfilled(open_table(spec), flow.name, bounds.latest, bounds.ids)
    finally:
        brokers.close()
    made = plan(flow.name, start, end, stream, done)
    rows = sum(_write(spark, pipeline, flow, spec, bounds, each) for each in made.rounds)
    return Backfilled(rows, made.said)


def plan(
    flow: str,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int] | None,
    stream: Mapping[TopicPartition, int] | None,
    done: Mapping[TopicPartition, list[Span]],
) -> Plan:
    """Which ranges to write; SpecError if the stream writes some of them, too.

    `stream` says where it began, for the partitions that it reads; None: it ran, and nobody knows where it began.
    """
    if end is None:
        if stream is None:
            raise SpecError(f"flow {flow} has run, and nobody remembers where it began: say where to end with --to")
        end = {tp: stream.get(tp, first) for tp, first in start.items()}
    else:
        known = stream or {}
        both = [
            f"{tp} from offset {max(first, known[tp])} on"
            for tp, first in sorted(start.items())
            if tp in known and max(first, known[tp]) < end[tp]
        ]
        if both:
            raise SpecError(
                f"the stream of flow {flow} writes {', '.join(both[:5])}, too: end before that, or leave out --to"
            )
    said = []
    pieces: dict[TopicPartition, list[Span]] = {}
    for tp, first in sorted(start.items()):
        if first < end[tp]:
            pieces[tp] = without((first, end[tp]), done.get(tp, []))
            if pieces[tp] != [(first, end[tp])]:
                said.append(f"{tp}: an earlier backfill wrote offsets of {first} to {end[tp] - 1} already")
    deepest = max(map(len, pieces.values()), default=0)
    rounds = tuple({tp: each[depth] for tp, each in pieces.items() if depth < len(each)} for depth in range(deepest))
    if not rounds:
        why = "nothing is left" if said else "the flow's stream writes all of it" if stream else "there are no records"
        said.append(f"nothing to do: {why}")
    return Plan(rounds, tuple(said))


def _began(
    spark: SparkSession, pipeline: Pipeline, flow: Flow, spec: TableSpec, bounds: OffsetBounds
) -> dict[TopicPartition, int] | None:
    """Where the flow's stream began, by the table or by its checkpoint; None if neither says."""
    found = began(open_table(spec), flow.name, bounds.latest, bounds.ids)
    if found:
        return found
    first = Checkpoint(spark, pipeline.checkpoint_of(flow)).offsets(0)
    return {tp: at for tp, at in first.begins.items() if first.ids.get(tp.topic) == bounds.ids.get(tp.topic)} or None


def _will_begin(brokers: PlanningClient, flow: Flow, bounds: OffsetBounds) -> dict[TopicPartition, int]:
    """Where a stream begins that starts now."""
    start = flow.source.start
    if start == "earliest":
        return dict(bounds.earliest)
    if start == "latest":
        return dict(bounds.latest)
    found = brokers.at(dict.fromkeys(bounds.latest, int(start)))
    return {tp: bounds.latest[tp] if offset < 0 else offset for tp, offset in found.items()}


def _write(
    spark: SparkSession,
    pipeline: Pipeline,
    flow: Flow,
    spec: TableSpec,
    bounds: OffsetBounds,
    spans: Mapping[TopicPartition, Span],
) -> int:
    nothing = (EARLIEST, EARLIEST)
    edges: list[Any] = [
        json.dumps(to_json({tp: spans.get(tp, nothing)[edge] for tp in bounds.latest}, {})) for edge in (0, 1)
    ]
    frame = batch_frame(spark, pipeline, flow, {"startingOffsets": edges[0], "endingOffsets": edges[1]})
    query = backfill_query(flow.name)
    table = open_table(spec)
    last = table.last_batch(query)
    number = 0 if last is None else last + 1
    marks = backfill_marks(flow.name, number, spans, bounds.ids)
    rows = add_batch(spec, query, frame, number, lambda _: Marks(marks))
    if table.marks(marks) != marks:
        raise LakeError(f"flow {flow.name}: another backfill was at work at the same time: start this one again")
    return rows
