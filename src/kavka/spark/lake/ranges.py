"""Which offsets of which topics a table holds: marks that are set in the commits that add the rows.

A flow's stream has everything from where it began to where its last batch ended; its backfills have the ranges that
they wrote. Marks name topics by their ids: a topic that was deleted and created anew is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.model.types import TopicPartition
from kavka.spark.lake.table import LakeError, LakeTable, Marks

Span = tuple[int, int]
"""The offsets from the first to before the second."""
Spans = Mapping[TopicPartition, Span]

_STREAM: Final = "kavka-stream"
_ENDS: Final = "kavka-stream-end"
_BACKFILL: Final = "kavka-backfill"
_TOPIC: Final = "kavka-topic"


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """What a batch of a stream reads, by partition; all of it empty where a checkpoint does not say it."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int]
    """The starts that are not where the last batch ended: of a new stream or partition, or after lost data."""
    ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a table come from: a flow, and what the offsets of its batches are."""

    flow: str
    offsets: Callable[[int], BatchOffsets]


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


def reached(
    table: LakeTable, flow: str, partitions: Iterable[TopicPartition], ids: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Where the last batch of a flow's stream that is in the table ended, for the partitions that it has read."""
    names = {tp: _end(flow, tp, ids) for tp in partitions}
    marks = table.marks(names.values())
    return {tp: marks[name] for tp, name in names.items() if name in marks}


def resumed(
    table: LakeTable, flow: str, earliest: Mapping[TopicPartition, int], ids: Mapping[str, str]
) -> dict[TopicPartition, int] | None:
    """Where a stream goes on whose checkpoint is lost, by what the table has of it; None if it has nothing."""
    first = began(table, flow, earliest, ids)
    if not first:
        return None
    return {**earliest, **first, **reached(table, flow, earliest, ids)}


def check_added(table: LakeTable, origin: Origin, query: str, batch: int) -> None:
    """LakeError if the table has a batch of this number with other offsets: it would be taken for the same one."""
    last = table.last_batch(query)
    if last is None or last < batch:
        return
    now = origin.offsets(batch)
    there = reached(table, origin.flow, now.ends, now.ids)
    beyond = sorted(tp for tp, end in now.ends.items() if tp in there and end > there[tp])
    if beyond:
        raise LakeError(
            f"flow {origin.flow}: the checkpoint is older than the table, which has batch {batch} and ends {beyond[0]} "
            f"at offset {there[beyond[0]]}: delete the checkpoint, and the flow goes on where the table ends"
        )


def stream_marks(table: LakeTable, origin: Origin, batch: int) -> Marks:
    """What a batch of a stream has to mark; LakeError if its rows are in the table already."""
    now = origin.offsets(batch)
    flow, ids = origin.flow, now.ids
    for tp, spans in backfilled(table, flow, now.begins, ids).items():
        first, after = max(spans, key=lambda span: span[1])
        if now.begins[tp] < after:
            raise LakeError(
                f"flow {flow} begins {tp} at offset {now.begins[tp]}, and a backfill has written {first} to "
                f"{after - 1} already: begin after it (`start: latest`, or a time), with a new checkpoint"
            )
    there = reached(table, flow, now.ends, ids)
    for tp, end in sorted(there.items()):
        if now.starts.get(tp, end) < end:
            raise LakeError(
                f"flow {flow} goes on with {tp} at offset {now.starts[tp]}, and the table has up to {end - 1} of it "
                "already: delete the checkpoint, and the flow goes on where the table ends; or give it another name"
            )
    known = began(table, flow, now.begins, ids)
    marks = {_stream(flow, tp, ids): min(first, known.get(tp, first)) for tp, first in now.begins.items()}
    moved = {tp: end for tp, end in now.ends.items() if there.get(tp) != end and now.starts.get(tp) != end}
    marks.update({_end(flow, tp, ids): end for tp, end in moved.items()})
    return Marks(marks, {_end(flow, tp, ids): there.get(tp) for tp in moved})


def topic_marks(table: LakeTable, flow: str, ids: Mapping[str, str]) -> dict[str, int]:
    """The marks that say by the offsets of which topics rows are merged; LakeError if one of them is another one now.

    A topic that was created anew begins at offset 0: its rows would come before those that the table has.
    """
    now = {f"{_TOPIC}/{flow}/{topic}": _number(topic_id) for topic, topic_id in ids.items()}
    known = table.marks(now)
    for topic, name in zip(ids, now, strict=True):
        if known.get(name, now[name]) != now[name]:
            raise LakeError(
                f"flow {flow}: topic {topic!r} was deleted and created anew, and the offsets that rows are merged by "
                "begin again: give the flow another table, or merge by another column (`order_by`)"
            )
    return {name: value for name, value in now.items() if name not in known}


def _number(topic_id: str) -> int:
    return int.from_bytes(hashlib.sha256(topic_id.encode()).digest()[:7])


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


def _end(flow: str, tp: TopicPartition, ids: Mapping[str, str]) -> str:
    return f"{_ENDS}/{flow}/{ids.get(tp.topic, tp.topic)}/{tp.partition}"


def _backfill(flow: str, number: int, tp: TopicPartition, ids: Mapping[str, str]) -> tuple[str, str]:
    name = f"{_BACKFILL}/{flow}/{number}/{ids.get(tp.topic, tp.topic)}/{tp.partition}"
    return f"{name}/first", f"{name}/after"
