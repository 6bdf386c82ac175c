"""One remote segment: its states, its value, and the packed form in which the catalogue keeps thousands of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from kavka.model.types import Uuid

Epochs = tuple[tuple[int, int], ...]
"""(leader epoch, start offset) pairs, both increasing."""


class SegmentState(IntEnum):
    """How far a segment's copy, or its deletion, is."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class DeleteState(IntEnum):
    """How far a partition's deletion is."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


_S, _D = SegmentState, DeleteState
SEGMENT_TRANSITIONS: Final[Mapping[SegmentState | None, frozenset[SegmentState]]] = {
    None: frozenset({_S.COPY_SEGMENT_STARTED}),
    _S.COPY_SEGMENT_STARTED: frozenset({_S.COPY_SEGMENT_STARTED, _S.COPY_SEGMENT_FINISHED, _S.DELETE_SEGMENT_STARTED}),
    _S.COPY_SEGMENT_FINISHED: frozenset({_S.COPY_SEGMENT_FINISHED, _S.DELETE_SEGMENT_STARTED}),
    _S.DELETE_SEGMENT_STARTED: frozenset({_S.DELETE_SEGMENT_STARTED, _S.DELETE_SEGMENT_FINISHED}),
    _S.DELETE_SEGMENT_FINISHED: frozenset({_S.DELETE_SEGMENT_FINISHED}),
}
DELETE_TRANSITIONS: Final[Mapping[DeleteState | None, frozenset[DeleteState]]] = {
    None: frozenset({_D.DELETE_PARTITION_MARKED}),
    _D.DELETE_PARTITION_MARKED: frozenset({_D.DELETE_PARTITION_MARKED, _D.DELETE_PARTITION_STARTED}),
    _D.DELETE_PARTITION_STARTED: frozenset({_D.DELETE_PARTITION_STARTED, _D.DELETE_PARTITION_FINISHED}),
    _D.DELETE_PARTITION_FINISHED: frozenset({_D.DELETE_PARTITION_FINISHED}),
}


class TopicIdPartition(NamedTuple):
    """A partition of a topic that had this id; a topic of the same name made anew has another."""

    topic_id: Uuid
    partition: int
    topic: str

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.topic}-{self.partition}"


class RemoteSegment(NamedTuple):
    """What is known of a remote segment."""

    id: Uuid
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    size_bytes: int
    broker_id: int
    epochs: Epochs
    state: SegmentState = SegmentState.COPY_SEGMENT_STARTED
    txn_index_empty: bool = False
    custom_metadata: bytes | None = None

    def fault(self) -> str | None:
        """Why there can be no such segment, as Kafka sees it; None if there can."""
        if self.start_offset < 0:
            return f"starts at {self.start_offset}"
        if self.end_offset < self.start_offset:
            return f"ends at {self.end_offset}, before its start {self.start_offset}"
        if not self.epochs:
            return "has no leader epochs"
        return None

    def epoch_end(self, epoch: int) -> int:
        """The last offset that an epoch has in this segment."""
        return next((start - 1 for later, start in self.epochs if later > epoch), self.end_offset)


_FIXED: Final = Struct(">qqqqiibBiI")
_EPOCH: Final = Struct(">iq")
_TXN_INDEX_EMPTY = 1
_NO_CUSTOM = -1


def pack(segment: RemoteSegment) -> bytes:
    """All of a segment but its id, in about 60 bytes: ten thousand of them are objects the collector never visits."""
    custom = segment.custom_metadata
    return b"".join(
        (
            _FIXED.pack(
                segment.start_offset,
                segment.end_offset,
                segment.max_timestamp_ms,
                segment.event_timestamp_ms,
                segment.size_bytes,
                segment.broker_id,
                segment.state,
                _TXN_INDEX_EMPTY if segment.txn_index_empty else 0,
                _NO_CUSTOM if custom is None else len(custom),
                len(segment.epochs),
            ),
            *(_EPOCH.pack(*epoch) for epoch in segment.epochs),
            custom or b"",
        )
    )


def unpack(id: Uuid, data: bytes) -> RemoteSegment:
    """The segment of an id."""
    start, end, max_ms, event_ms, size, broker, state, flags, custom, count = _FIXED.unpack_from(data)
    after = _FIXED.size + count * _EPOCH.size
    epochs = tuple(_EPOCH.iter_unpack(data[_FIXED.size : after]))
    custom_metadata = None if custom == _NO_CUSTOM else data[after:]
    empty = bool(flags & _TXN_INDEX_EMPTY)
    return RemoteSegment(
        id, start, end, max_ms, event_ms, size, broker, epochs, SegmentState(state), empty, custom_metadata
    )
