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


class ExpiredRemoteSegment(NamedTuple):
    """A remote segment to be deleted, and why."""

    segment: RemoteSegment
    reason: str


class Expiry(NamedTuple):
    """The segments to be deleted, and the log start offset without them."""

    segments: list[ExpiredRemoteSegment]
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
    found: list[ExpiredRemoteSegment] = []
    seen: set[Uuid] = set()
    for segment in _by_epoch(held, lineage):
        if segment.id in seen or segment.state is not SegmentState.COPY_SEGMENT_FINISHED:
            continue
        seen.add(segment.id)
        if segment.end_offset < log.log_start_offset and segment.epochs[-1][0] <= lineage[0][0]:
            found.append(ExpiredRemoteSegment(segment, f"it ends before the log start offset {log.log_start_offset}"))
            continue
        if not is_within(segment, log.log_end_offset, lineage):
            continue
        if retention.ms >= 0 and 0 <= segment.max_timestamp_ms < now_ms - retention.ms:
            found.append(ExpiredRemoteSegment(segment, f"its newest record is older than retention.ms={retention.ms}"))
        elif 0 < excess >= segment.size_bytes:
            found.append(ExpiredRemoteSegment(segment, f"the log is larger than retention.bytes={retention.bytes}"))
        else:
            break
        excess = max(0, excess - segment.size_bytes)
        start = max(start, segment.end_offset + 1)
    epoch, begins = log.lineage[0]
    older = _before(held, epoch, seen) if begins <= log.log_start_offset else ()  # else they may be this log's
    return Expiry([*found, *older], start)


def first_readable(held: PartitionSegments, log: LogSpan, local_start_offset: int) -> int:
    """Where the log really starts: at its start if a segment or the disk has that, else at the next that one has.

    A leader whose checkpoint of the log start is lost, or older than what has expired, finds it by this. What nobody
    has given up was lost by the catalogue, and may be put back: the start stays before it.
    """
    start = log.log_start_offset
    if start >= local_start_offset or held.find(start, log.lineage) is not None:
        return start
    later = (
        segment.start_offset for segment in held.valid(log.lineage, log.log_end_offset) if segment.start_offset > start
    )
    return max(start, min([local_start_offset, held.given_up_before, *later]))


def all_segments(held: PartitionSegments, reason: str) -> list[ExpiredRemoteSegment]:
    """Every segment whose deletion has not begun: the topic is gone, or keeps nothing remote any more."""
    going = SegmentState.DELETE_SEGMENT_STARTED
    return [ExpiredRemoteSegment(segment, reason) for segment in held.segments() if segment.state is not going]


class Copiers(NamedTuple):
    """Who may be at a copy that has begun."""

    node_id: int
    in_flight: Collection[Uuid]
    """What this node is at."""
    in_service: Collection[int]
    """The brokers that end themselves what they have begun."""
    before_ms: int
    """A copy that began before this is given up by whoever made it, whatever else is true of it."""


def own_leftovers(held: PartitionSegments, copiers: Copiers) -> list[RemoteSegment]:
    """Segments whose copy this node has begun and is not at any more."""
    return [
        segment
        for segment in _begun(held)
        if segment.broker_id == copiers.node_id and segment.id not in copiers.in_flight
    ]


def leftovers(held: PartitionSegments, copiers: Copiers) -> list[RemoteSegment]:
    """Segments whose copy nobody will finish, as a leader sees it.

    One that an earlier leader is still at is left to it: deleted the moment it is finished, it might take records
    with it that other disks have let go already.
    """
    others = (segment for segment in _begun(held) if segment.broker_id != copiers.node_id)
    return [
        *own_leftovers(held, copiers),
        *(
            segment
            for segment in others
            if segment.broker_id not in copiers.in_service or segment.event_timestamp_ms < copiers.before_ms
        ),
    ]


def _begun(held: PartitionSegments) -> list[RemoteSegment]:
    return [segment for segment in held.pending() if segment.state is SegmentState.COPY_SEGMENT_STARTED]


def to_remove(held: PartitionSegments, before_ms: int) -> list[RemoteSegment]:
    """Segments whose deletion was announced before a time and has not ended: their objects may go, or go again."""
    going = (segment for segment in held.pending() if segment.state is SegmentState.DELETE_SEGMENT_STARTED)
    return [segment for segment in going if segment.event_timestamp_ms <= before_ms]


def _excess(held: PartitionSegments, log: LogSpan, retention: Retention) -> int:
    """By how much the log is larger than it may be; what ends before its start goes anyway and does not count.

    Nor does what was copied twice, by two leaders: once is all that can be read of it.
    """
    if retention.bytes < 0:
        return 0
    remote, counted = 0, log.log_start_offset - 1
    for segment in held.valid(with_records(tuple(log.lineage)), log.log_end_offset):
        if segment.end_offset > counted:
            remote, counted = remote + segment.size_bytes, segment.end_offset
    return max(0, log.only_local_bytes + remote - retention.bytes)


def _by_epoch(held: PartitionSegments, lineage: Lineage) -> Iterator[RemoteSegment]:
    for epoch, _ in lineage:
        yield from held.segments_of(epoch)


def _before(held: PartitionSegments, epoch: int, seen: set[Uuid]) -> Iterator[ExpiredRemoteSegment]:
    """Segments of epochs that this log does not know any more: after an unclean election nobody else would."""
    for older in sorted(known for known in held.epochs if known < epoch):
        for segment in held.segments_of(older):
            finished = segment.state is SegmentState.COPY_SEGMENT_FINISHED
            if finished and segment.id not in seen and segment.epochs[-1][0] < epoch:
                seen.add(segment.id)
                yield ExpiredRemoteSegment(segment, f"all its leader epochs are before {epoch}, the first of the log")
