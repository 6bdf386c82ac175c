"""Which remote segments have to go, and where the log starts then: Kafka's rules, with what they forget.

A segment is gone in three steps that a crash may come between: the log start moves past it, it is announced as being
deleted, its objects are removed. Each step is decided from what the catalogue says, so whoever leads next goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kavka.catalog.lineage import Lineage, is_within, with_records
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import RemoteSegment, SegmentState
from kavka.model.types import Uuid

UNLIMITED = -1


class LogSpan(NamedTuple):
    """What expiry knows of the log that the segments belong to."""

    lineage: Lineage
    log_start_offset: int
    log_end_offset: int
    only_local_bytes: int
    """The size of what no remote segment has."""


class Retention(NamedTuple):
    """How long, and how much of, a log is kept; negative is for ever."""

    ms: int = UNLIMITED
    bytes: int = UNLIMITED


class Expired(NamedTuple):
    """A segment that has to go, and why."""

    segment: RemoteSegment
    reason: str


class Expiry(NamedTuple):
    """What has to go, and where the log starts without it."""

    segments: list[Expired]
    log_start_offset: int


def expired(held: PartitionSegments, log: LogSpan, retention: Retention, now_ms: int) -> Expiry:
    """The finished segments that retention or the log start lets go, oldest first.

    Those of the log's history go up to the first that is to stay. The catalogue is one that was read to its end, so
    what it has is never counted as local as well (KAFKA-20732). A segment whose times are not known is never old.
    """
    lineage = with_records(tuple(log.lineage))
    if not lineage:
        return Expiry([], log.log_start_offset)
    excess = _excess(held, log, retention)
    start = log.log_start_offset
    found: list[Expired] = []
    seen: set[Uuid] = set()
    for segment in _by_epoch(held, lineage):
        if segment.id in seen or segment.state is not SegmentState.COPY_SEGMENT_FINISHED:
            continue
        seen.add(segment.id)
        if segment.end_offset < log.log_start_offset and segment.epochs[-1][0] <= lineage[0][0]:
            found.append(Expired(segment, f"it ends before the log start offset {log.log_start_offset}"))
            continue
        if not is_within(segment, log.log_end_offset, lineage):
            continue
        if retention.ms >= 0 and 0 <= segment.max_timestamp_ms < now_ms - retention.ms:
            found.append(Expired(segment, f"its newest record is older than retention.ms={retention.ms}"))
        elif 0 < excess >= segment.size_bytes:
            found.append(Expired(segment, f"the log is larger than retention.bytes={retention.bytes}"))
        else:
            break
        excess = max(0, excess - segment.size_bytes)
        start = max(start, segment.end_offset + 1)
    return Expiry([*found, *_before(held, log.lineage[0][0], seen)], start)


def first_readable(held: PartitionSegments, log: LogSpan, local_start_offset: int) -> int:
    """Where the log really starts: at its start if a segment or the disk has that, else at the next that one has.

    A leader whose checkpoint of the log start is lost, or older than what has expired, finds it by this.
    """
    start = log.log_start_offset
    if start >= local_start_offset or held.find(start, log.lineage) is not None:
        return start
    later = (one.start_offset for one in held.valid(log.lineage, log.log_end_offset) if one.start_offset > start)
    return min([local_start_offset, *later])


def all_segments(held: PartitionSegments, reason: str) -> list[Expired]:
    """Every segment whose deletion has not begun: the topic is gone, or keeps nothing remote any more."""
    going = SegmentState.DELETE_SEGMENT_STARTED
    return [Expired(segment, reason) for segment in held.segments() if segment.state is not going]


def dangling(held: PartitionSegments, in_flight: Collection[Uuid]) -> list[RemoteSegment]:
    """Segments whose copy was begun by somebody who is not at it any more: nobody will finish them."""
    begun = (segment for segment in held.unreferenced() if segment.state is SegmentState.COPY_SEGMENT_STARTED)
    return [segment for segment in begun if segment.id not in in_flight]


def to_remove(held: PartitionSegments, before_ms: int) -> list[RemoteSegment]:
    """Segments whose deletion was announced before a time and has not ended: their objects may go, or go again."""
    going = (segment for segment in held.unreferenced() if segment.state is SegmentState.DELETE_SEGMENT_STARTED)
    return [segment for segment in going if segment.event_timestamp_ms <= before_ms]


def _excess(held: PartitionSegments, log: LogSpan, retention: Retention) -> int:
    """By how much the log is larger than it may be; what ends before its start goes anyway and does not count."""
    if retention.bytes < 0:
        return 0
    valid = held.valid(with_records(tuple(log.lineage)), log.log_end_offset)
    remote = sum(segment.size_bytes for segment in valid if segment.end_offset >= log.log_start_offset)
    return max(0, log.only_local_bytes + remote - retention.bytes)


def _by_epoch(held: PartitionSegments, lineage: Lineage) -> Iterator[RemoteSegment]:
    for epoch, _ in lineage:
        yield from held.segments_of(epoch)


def _before(held: PartitionSegments, epoch: int, seen: set[Uuid]) -> Iterator[Expired]:
    """Segments of epochs that this log does not know any more: after an unclean election nobody else would."""
    for older in sorted(known for known in held.epochs if known < epoch):
        for segment in held.segments_of(older):
            finished = segment.state is SegmentState.COPY_SEGMENT_FINISHED
            if finished and segment.id not in seen and segment.epochs[-1][0] < epoch:
                seen.add(segment.id)
                yield Expired(segment, f"all its leader epochs are before {epoch}, the first of the log")
