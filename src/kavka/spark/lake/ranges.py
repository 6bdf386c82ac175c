"""Which offsets of which topics a table holds: marks that are set in the commits that add the rows.

A flow's stream has everything from where it began; its backfills have the ranges that they wrote. Marks name topics by
their ids: a topic that was deleted and created anew is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.model.types import TopicPartition
from kavka.spark.lake.table import LakeError, LakeTable

Span = tuple[int, int]
"""The offsets from the first to before the second."""
Spans = Mapping[TopicPartition, Span]

_STREAM: Final = "kavka-stream"
_BACKFILL: Final = "kavka-backfill"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a table come from: a flow, and what the offsets of its batches are."""

    flow: str
    begins: Callable[[int], tuple[Mapping[TopicPartition, int], Mapping[str, str]]]
    """Where a batch begins that does not go on where the last one ended, by partition, and the topics' ids."""


def backfill_query(flow: str) -> str:
    """Under which name the backfills of a flow are batches of a table."""
    return f"{_BACKFILL}/{flow}"


def backfill_marks(flow: str, number: int, spans: Spans, ids: Mapping[str, str]) -> dict[str, int]:
    """The marks of one backfill."""
    names = {tp: _backfill(flow, number, tp, ids) for tp in spans}
    return {name: value for tp, span in spans.items() for name, value in zip(names[tp], span, strict=True)}


def backfilled(
    table: LakeTable, flow: str, partitions: Iterable[TopicPartition], ids: Mapping[str, str]
) -> dict[TopicPartition, list[Span]]:
    """What the backfills of a flow have written, by partition."""
    last = table.last_batch(backfill_query(flow))
    numbers = range(0 if last is None else last + 1)
    names = {(tp, number): _backfill(flow, number, tp, ids) for tp in partitions for number in numbers}
    marks = table.marks(name for pair in names.values() for name in pair)
    found: dict[TopicPartition, list[Span]] = {}
    for (tp, _), (first, after) in names.items():
        if first in marks and after in marks:
            found.setdefault(tp, []).append((marks[first], marks[after]))
    return found


def began(
    table: LakeTable, flow: str, partitions: Iterable[TopicPartition], ids: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Where a flow's stream began, for the partitions that it has begun with."""
    names = {tp: _stream(flow, tp, ids) for tp in partitions}
    marks = table.marks(names.values())
    return {tp: marks[name] for tp, name in names.items() if name in marks}


def stream_marks(table: LakeTable, origin: Origin, batch: int) -> dict[str, int]:
    """What a batch of a stream has to mark; LakeError if a backfill has written what this stream will."""
    begins, ids = origin.begins(batch)
    if not begins:
        return {}
    for tp, spans in backfilled(table, origin.flow, begins, ids).items():
        first, after = max(spans, key=lambda span: span[1])
        if begins[tp] < after:
            raise LakeError(
                f"flow {origin.flow} begins {tp} at offset {begins[tp]}, and a backfill has written {first} to "
                f"{after - 1} already: begin after it (`start: latest`, or a time), with a new checkpoint"
            )
    known = began(table, origin.flow, begins, ids)
    return {_stream(origin.flow, tp, ids): min(first, known.get(tp, first)) for tp, first in begins.items()}


def without(span: Span, done: Sequence[Span]) -> list[Span]:
    """What is left of a range without others."""
    left = []
    at = span[0]
    for first, after in sorted(done):
        if first > at:
            left.append((at, min(first, span[1])))
        at = max(at, after)
    left.append((at, span[1]))
    return [(first, after) for first, after in left if first < after]


def _stream(flow: str, tp: TopicPartition, ids: Mapping[str, str]) -> str:
    return f"{_STREAM}/{flow}/{ids.get(tp.topic, tp.topic)}/{tp.partition}"


def _backfill(flow: str, number: int, tp: TopicPartition, ids: Mapping[str, str]) -> tuple[str, str]:
    name = f"{_BACKFILL}/{flow}/{number}/{ids.get(tp.topic, tp.topic)}/{tp.partition}"
    return f"{name}/first", f"{name}/after"
