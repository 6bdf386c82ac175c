"""Which offsets to read, and in which pieces: pure planning, the same for the same input wherever it runs.

Rule: nothing here asks a broker. `source.py` brings what the brokers say, and reads what is planned here.

Offsets travel through Spark's checkpoint as JSON, `{"orders": {"0": 17, "1": 4}}` as in Spark's own Kafka source, with
entries more, whose names no topic can have. `"@ids"` says which topics these were: a topic that was deleted and created
anew has another id. `"@begin"` says where a batch begins if that is not where the last one ended: the first batch, new
partitions, lost data. Spark remembers only where batches end, and `latest` or `earliest` are another place when a batch
is tried again after a failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from kavka.model.types import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
IDS: Final = "@ids"
INITIAL: Final = "@initial"
SMALL: Final = 10_000
"""Ranges with fewer offsets take less time to read than their task to start."""
PACKED: Final = 100_000
"""How many offsets small ranges that share a task have together, at most."""
TASKS: Final = 32
"""With so few tasks nothing is packed: they may well all run at once."""
BEGIN: Final = "@begin"

Offsets = Mapping[TopicPartition, int]


class DataLossError(Exception):
    """Data that a query was to read is gone, and it was told to fail then."""

    def __init__(self, losses: Sequence[str]) -> None:
        super().__init__(
            f"{'; '.join(losses)}. Some data may have been lost: it was deleted by retention or by an administrator "
            'before it was read. To go on with what is left, set option("failOnDataLoss", "false"); to begin anew, '
            "use a new checkpoint location."
        )


class BadOffsetsError(ValueError):
    """Offsets that somebody gave cannot be used."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file that holds a part of a partition's log: `location` is what a reader of that kind of store opens."""

    topic_partition: TopicPartition
    first: int
    after: int
    location: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets from `start` to before `end` of one partition; from the leader unless it says where they are."""

    topic_partition: TopicPartition
    start: int
    end: int
    location: str | None = None

    @property
    def size(self) -> int:
        """How many offsets there are; with gaps in the log there are fewer records."""
        return self.end - self.start


def to_json(offsets: Offsets, ids: Mapping[str, str]) -> dict[str, dict[str, int | str]]:
    """Offsets as Spark's checkpoint keeps them, always in the same order."""
    document: dict[str, dict[str, int | str]] = {}
    for topic, partition in sorted(offsets):
        document.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    known: dict[str, int | str] = {topic: ids[topic] for topic in sorted(document) if topic in ids}
    return {**document, IDS: known} if known else document


def from_json(document: Mapping[str, Any]) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """Offsets and topic ids from a checkpoint: ours, or one of Spark's Kafka source."""
    offsets: dict[TopicPartition, int] = {}
    try:
        for topic, partitions in document.items():
            if not topic.startswith("@"):
                for partition, offset in partitions.items():
                    offsets[TopicPartition(topic, int(partition))] = int(offset)
        ids = {str(topic): str(topic_id) for topic, topic_id in document.get(IDS, {}).items()}
    except (AttributeError, TypeError, ValueError):
        raise BadOffsetsError(f"the checkpoint's offsets cannot be read: {document!r:.200}") from None
    return offsets, ids


def reported(said: Any) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """The same from what Spark reports of a batch: a document, its text, or nothing."""
    return from_json(json.loads(said) if isinstance(said, str) else said or {})


def resolve(
    given: Mapping[TopicPartition, int] | int, partitions: Iterable[TopicPartition], what: str
) -> dict[TopicPartition, int]:
    """An offset or EARLIEST or LATEST for every partition; those given one by one must be exactly these."""
    partitions = sorted(partitions)
    if isinstance(given, int):
        return dict.fromkeys(partitions, given)
    missing, unknown = sorted(set(partitions) - set(given)), sorted(set(given) - set(partitions))
    if missing or unknown:
        wrong = [f"says nothing of {tp}" for tp in missing] + [f"names {tp}, which is not read" for tp in unknown]
        raise BadOffsetsError(
            f"{what} {' and '.join(wrong[:5])}: name every partition exactly once (-2 earliest, -1 latest)"
        )
    return {tp: given[tp] for tp in partitions}


def settle(wanted: Offsets, earliest: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Real offsets for EARLIEST and LATEST."""
    special = {EARLIEST: earliest, LATEST: latest}
    return {tp: special[offset][tp] if offset in special else offset for tp, offset in wanted.items()}


def check_within(wanted: Offsets, earliest: Offsets, latest: Offsets, what: str) -> None:
    """Offsets that a user gave must exist: an offset that is past the end or long deleted is more likely a mistake."""
    wrong = [
        f"{tp} has offsets {earliest[tp]} to {latest[tp]}, not {offset}"
        for tp, offset in wanted.items()
        if not earliest[tp] <= offset <= latest[tp]
    ]
    if wrong:
        raise BadOffsetsError(f"{what}: {'; '.join(wrong[:5])}")


def losses(
    start: Offsets, ids: Mapping[str, str], earliest: Offsets, latest: Offsets, ids_now: Mapping[str, str]
) -> list[str]:
    """What a query that goes on at `start` will never see, in words; empty if it misses nothing."""
    gone = [
        f"topic {topic!r} was deleted and created anew"
        for topic, topic_id in sorted(ids.items())
        if topic in ids_now and ids_now[topic] != topic_id
    ]
    for tp, offset in sorted(start.items()):
        if tp not in latest:
            gone.append(f"{tp} of the checkpoint does not exist any more, or is not read any more")
        elif offset < earliest[tp]:
            gone.append(f"{tp} begins at offset {earliest[tp]}, the query is at {offset}")
        elif offset > latest[tp]:
            gone.append(f"{tp} ends at offset {latest[tp]}, the query is at {offset}")
    return gone


def continued(
    start: Offsets, ids: Mapping[str, str], earliest: Offsets, latest: Offsets, ids_now: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Where to go on: new partitions from their first record, lost data at the first that is left."""
    result: dict[TopicPartition, int] = {}
    for tp in latest:
        offset = start.get(tp, earliest[tp])
        if tp.topic in ids and ids_now.get(tp.topic, ids[tp.topic]) != ids[tp.topic]:
            offset = earliest[tp]
        result[tp] = offset if earliest[tp] <= offset <= latest[tp] else earliest[tp]
    return result


def admit(start: Offsets, latest: Offsets, max_offsets: int | None) -> dict[TopicPartition, int]:
    """How far a micro-batch goes: at most so many offsets, each partition its share of what is left to read.

    Goes on in every case: if there is anything to read, something of it is admitted.
    """
    sizes = {tp: max(0, latest[tp] - start.get(tp, latest[tp])) for tp in latest}
    total = sum(sizes.values())
    if max_offsets is None or total <= max_offsets:
        return {tp: max(latest[tp], start.get(tp, 0)) for tp in latest}
    shares = {tp: size * max_offsets // total for tp, size in sizes.items()}
    left = max_offsets - sum(shares.values())
    # What rounding left over goes to those that it took most from.
    for tp in sorted(sizes, key=lambda tp: (-(sizes[tp] * max_offsets % total), tp)):
        if left and shares[tp] < sizes[tp]:
            shares[tp] += 1
            left -= 1
    return {tp: start.get(tp, latest[tp]) + shares[tp] for tp in latest}


def plan(
    start: Offsets,
    end: Offsets,
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    segments: Iterable[SegmentFile] = (),
) -> list[Range]:
    """The pieces that tasks read, in order: one for each partition, more to reach a number or to stay below a size.

    What a segment file holds is read from it; the leader serves the rest.
    """
    ranges = [Range(tp, start[tp], end[tp]) for tp in sorted(end) if tp in start and start[tp] < end[tp]]
    ranges = [piece for range_ in ranges for piece in _by_segments(range_, segments)]
    if max_records is not None:
        ranges = [piece for range_ in ranges for piece in _cut(range_, -(-range_.size // max_records))]
    if min_partitions is not None and len(ranges) < min_partitions:
        ranges = _spread(ranges, min_partitions)
    return ranges


def packed(ranges: Sequence[Range], at_least: int | None = None) -> list[tuple[Range, ...]]:
    """Ranges by task, in order: small ones share a task, unless there would be too few tasks to do side by side."""
    small = sum(each.size for each in ranges if each.size < SMALL)
    budget = min(PACKED, small // max(at_least or 0, TASKS))
    tasks: list[tuple[Range, ...]] = []
    pack: list[Range] = []
    size = 0
    for each in ranges:
        if each.size >= SMALL:
            tasks.append((each,))
            continue
        if pack and size + each.size > budget:
            tasks.append(tuple(pack))
            pack, size = [], 0
        pack.append(each)
        size += each.size
    return [*tasks, tuple(pack)] if pack else tasks


def _by_segments(whole: Range, segments: Iterable[SegmentFile]) -> list[Range]:
    pieces: list[Range] = []
    tp, at = whole.topic_partition, whole.start
    ours = sorted(
        (segment for segment in segments if segment.topic_partition == tp),
        key=lambda segment: (segment.first, -segment.after),
    )
    for segment in ours:
        first, after = max(segment.first, at), min(segment.after, whole.end)
        if first >= after:
            continue
        if at < first:
            pieces.append(Range(tp, at, first))
        pieces.append(Range(tp, first, after, segment.location))
        at = after
    if at < whole.end:
        pieces.append(Range(tp, at, whole.end))
    return pieces


def _spread(ranges: Sequence[Range], at_least: int) -> list[Range]:
    """Split so that there are so many pieces, if there are as many offsets; the largest pieces are split first."""
    parts = [1] * len(ranges)
    for _ in range(at_least - len(ranges)):
        largest = max(range(len(ranges)), key=lambda i: (ranges[i].size / parts[i], -i), default=None)
        if largest is None or parts[largest] >= ranges[largest].size:
            break
        parts[largest] += 1
    return [piece for range_, count in zip(ranges, parts, strict=True) for piece in _cut(range_, count)]


def _cut(whole: Range, count: int) -> list[Range]:
    count = max(1, min(count, whole.size))
    edges = [whole.start + whole.size * i // count for i in range(count + 1)]
    tp, location = whole.topic_partition, whole.location
    return [Range(tp, low, high, location) for low, high in pairwise(edges)]
