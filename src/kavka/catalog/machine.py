"""The catalogue of remote segments: decides events, and is rebuilt by replaying them.

Deciding methods read and return events; `replay` is the only writer. A catalogue follows some partitions of
`__remote_log_metadata` and answers for a user partition only when the one that remembers it was read up to where it
ended when following began: before that an answer would be a guess, so it is a retriable error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from kavka.catalog.partition import PartitionSegments
from kavka.catalog.partitioner import metadata_partition
from kavka.catalog.records import (
    Event,
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
    decode_event,
)
from kavka.catalog.segment import (
    DELETE_TRANSITIONS,
    SEGMENT_TRANSITIONS,
    DeleteState,
    RemoteSegment,
    SegmentState,
    TopicIdPartition,
)
from kavka.model.errors import InvalidRequest, KafkaError, ReplicaNotAvailable, ResourceNotFound
from kavka.model.transition import Transition
from kavka.model.types import Uuid

_Key = tuple[Uuid, int]

UNKNOWN_EPOCH: Final = -1


class ReplayResult(Enum):
    """What became of an event."""

    APPLIED = "applied"
    INVALID_TRANSITION = "invalid transition"  # dropped, as Kafka does
    UNKNOWN_SEGMENT = "unknown segment"  # dropped; while loading that is how deleted segments look
    UNREADABLE = "unreadable"  # not an event that we know: a newer version, or not one at all
    IMPOSSIBLE = "impossible"  # no segment can be like that
    REPEATED = "repeated"  # read before: taken in again, an old start would bring a deleted segment back


@dataclass(slots=True)
class EventCounts:
    """What no log remembers: how many events were taken and dropped since the start."""

    applied: int = 0
    invalid_transitions: int = 0
    unknown_segments: int = 0
    unknown_while_loading: int = 0
    unreadable: int = 0
    impossible: int = 0


class Following:
    """How far the metadata partitions that are followed were read, and how far they must be before we answer."""

    __slots__ = ("_targets", "epochs", "next_offsets")

    def __init__(self) -> None:
        self.next_offsets: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        """The leader epoch of what was read last, where it is known: by it a log is recognized that lost its end."""
        self._targets: dict[int, int | None] = {}

    def follow(self, partition: int) -> int:
        """Begin with a partition, whose end is not known yet; answers the offset to read from."""
        self._targets.setdefault(partition, None)
        return self.next_offsets.get(partition, 0)

    def place(self, partition: int) -> tuple[int, int]:
        """The offset to read a partition from, and the leader epoch of what comes before; -1 if that is not known."""
        return self.next_offsets.get(partition, 0), self.epochs.get(partition, UNKNOWN_EPOCH)

    def set_target(self, partition: int, end_offset: int) -> None:
        """Note where a partition that is followed ended when that began; later ends do not move it."""
        if partition in self._targets and self._targets[partition] is None:
            self._targets[partition] = end_offset

    def unfollow(self, partition: int) -> None:
        """Stop answering from a partition."""
        self._targets.pop(partition, None)
        self.next_offsets.pop(partition, None)
        self.epochs.pop(partition, None)

    def is_ready(self, partition: int) -> bool:
        """Whether a partition was read up to its target."""
        target = self._targets.get(partition)
        return target is not None and self.next_offsets.get(partition, 0) >= target

    def is_target_known(self, partition: int) -> bool:
        """Whether a partition's end was ever learned; until then it is asked for again and again."""
        return self._targets.get(partition) is not None

    def is_followed(self, partition: int) -> bool:
        """Whether a partition is followed."""
        return partition in self._targets

    @property
    def followed(self) -> list[int]:
        """The partitions that are followed."""
        return sorted(self._targets)


class Catalogue:
    """The remote segments of all partitions that the followed metadata partitions remember."""

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count
        self.following = Following()
        self.counts = EventCounts()
        self.partitions: dict[_Key, PartitionSegments] = {}

    # Asking

    def metadata_partition_of(self, topic_id: Uuid, partition: int) -> int:
        """The metadata partition that remembers a partition."""
        return metadata_partition(topic_id, partition, self.partition_count)

    def is_ready(self, topic_id: Uuid, partition: int) -> bool:
        """Whether all that was known of a partition when we began has been read."""
        return self.following.is_ready(self.metadata_partition_of(topic_id, partition))

    def partition(self, topic_id: Uuid, partition: int) -> PartitionSegments:
        """The segments of a partition; none at all is an answer too. Raises ReplicaNotAvailable before it is one."""
        metadata_partition = self.metadata_partition_of(topic_id, partition)
        if not self.following.is_ready(metadata_partition):
            raise ReplicaNotAvailable(
                f"partition {metadata_partition} of the remote log metadata has not been read yet"
            )
        found = self.partitions.get((topic_id, partition))
        return (
            found
            if found is not None
            else PartitionSegments(TopicIdPartition(topic_id, partition, ""), metadata_partition)
        )

    def being_deleted(self) -> Iterator[PartitionSegments]:
        """The partitions whose deletion has begun and not ended: whoever starts goes on with it."""
        return (partition for partition in self.partitions.values() if partition.delete_state is not None)

    # Deciding

    def start_copy(self, name: TopicIdPartition, segment: RemoteSegment) -> Transition[RemoteSegment]:
        """Announce a segment before its first byte is copied."""
        fault = segment.fault()
        if fault is not None:
            raise InvalidRequest(f"the segment {segment.id} {fault}")
        if segment.state is not SegmentState.COPY_SEGMENT_STARTED:
            raise InvalidRequest(
                f"a copy begins with {SegmentState.COPY_SEGMENT_STARTED.name}, not {segment.state.name}"
            )
        held = self.partition(name.topic_id, name.partition)
        if held.delete_state is not None:
            raise InvalidRequest(f"{name} is being deleted")
        if segment.id in held:
            raise InvalidRequest(f"there is a segment {segment.id} already")
        return Transition(segment, (segment_event(name, segment),))

    def update(
        self,
        name: TopicIdPartition,
        id: Uuid,
        state: SegmentState,
        *,
        broker_id: int,
        now_ms: int,
        custom_metadata: bytes | None = None,
    ) -> Transition[RemoteSegment]:
        """Move a segment on; without custom metadata it keeps what it has."""
        held = self.partition(name.topic_id, name.partition).get(id)
        if held is None:
            raise ResourceNotFound(f"there is no segment {id} of {name}")
        if state is SegmentState.COPY_SEGMENT_STARTED or state not in SEGMENT_TRANSITIONS[held.state]:
            raise InvalidRequest(f"the segment {id} is {held.state.name}: it cannot become {state.name}")
        custom = custom_metadata if custom_metadata is not None else held.custom_metadata
        moved = held._replace(state=state, broker_id=broker_id, event_timestamp_ms=now_ms, custom_metadata=custom)
        return Transition(moved, (update_event(name, moved),))

    def delete_partition(
        self, name: TopicIdPartition, state: DeleteState, *, broker_id: int, now_ms: int
    ) -> Transition[DeleteState]:
        """Move a partition's deletion on: marked, begun, and ended when its last segment is gone."""
        held = self.partition(name.topic_id, name.partition)
        if state not in DELETE_TRANSITIONS[held.delete_state]:
            raise InvalidRequest(f"the deletion of {name} cannot become {state.name}")
        if state is DeleteState.DELETE_PARTITION_FINISHED and len(held):
            raise InvalidRequest(f"{name} still has {len(held)} remote segments")
        event = RemotePartitionDeleteMetadataRecord(
            topic_id_partition=_entry(name),
            broker_id=broker_id,
            event_timestamp_ms=now_ms,
            remote_partition_delete_state=int(state),
        )
        return Transition(state, (event,))

    # Replaying

    def replay_value(self, metadata_partition: int, offset: int, value: bytes | memoryview | None) -> ReplayResult:
        """Take in a record of a metadata partition; one that cannot be read costs only itself."""
        if offset < self.following.next_offsets.get(metadata_partition, 0):
            return ReplayResult.REPEATED
        try:
            if value is None:
                raise InvalidRequest("an event without a value")
            event = decode_event(value)
        except KafkaError:
            self.counts.unreadable += 1
            result = ReplayResult.UNREADABLE
        else:
            result = self.replay(metadata_partition, event)
        self.following.next_offsets[metadata_partition] = (
            offset + 1
        )  # after the state: an offset says that all before it is in
        return result

    def replay(self, metadata_partition: int, event: Event) -> ReplayResult:
        """Take in an event that a metadata partition remembers."""
        match event:
            case RemoteLogSegmentMetadataRecord():
                result = self._replay_segment(metadata_partition, event)
            case RemoteLogSegmentMetadataUpdateRecord():
                result = self._replay_update(event)
            case RemotePartitionDeleteMetadataRecord():
                result = self._replay_delete(metadata_partition, event)
            case _:
                result = ReplayResult.UNREADABLE  # a snapshot's segment does not belong into the topic
        self._count(metadata_partition, result)
        return result

    def forget(self, metadata_partition: int) -> None:
        """Drop all that one metadata partition remembers."""
        self.following.unfollow(metadata_partition)
        self.partitions = {
            key: held for key, held in self.partitions.items() if held.metadata_partition != metadata_partition
        }

    def _replay_segment(self, metadata_partition: int, event: RemoteLogSegmentMetadataRecord) -> ReplayResult:
        state = state_of(event.remote_log_segment_state)
        if state is None:
            return ReplayResult.UNREADABLE
        segment = segment_of(event, state)
        if segment.fault() is not None:
            return ReplayResult.IMPOSSIBLE
        name = _name(event.remote_log_segment_id.topic_id_partition)
        held = self.partitions.get((name.topic_id, name.partition))
        before = held.get(segment.id) if held is not None else None
        follows = state in SEGMENT_TRANSITIONS[before.state if before is not None else None]
        if state is not SegmentState.COPY_SEGMENT_STARTED or not follows:
            return ReplayResult.INVALID_TRANSITION
        self._held(name, metadata_partition).apply(segment)
        return ReplayResult.APPLIED

    def _replay_update(self, event: RemoteLogSegmentMetadataUpdateRecord) -> ReplayResult:
        state = state_of(event.remote_log_segment_state)
        if state is None:
            return ReplayResult.UNREADABLE
        which = event.remote_log_segment_id
        held = self.partitions.get((which.topic_id_partition.id, which.topic_id_partition.partition))
        before = held.get(which.id) if held is not None else None
        if held is None or before is None:
            return ReplayResult.UNKNOWN_SEGMENT
        if state is SegmentState.COPY_SEGMENT_STARTED or state not in SEGMENT_TRANSITIONS[before.state]:
            return ReplayResult.INVALID_TRANSITION
        if state is SegmentState.DELETE_SEGMENT_STARTED and _gives_up_what_is_finished(before, event.custom_metadata):
            return ReplayResult.INVALID_TRANSITION
        held.apply(
            before._replace(
                state=state,
                broker_id=event.broker_id,
                event_timestamp_ms=event.event_timestamp_ms,
                custom_metadata=event.custom_metadata,
            )
        )
        return ReplayResult.APPLIED

    def _replay_delete(self, metadata_partition: int, event: RemotePartitionDeleteMetadataRecord) -> ReplayResult:
        try:
            state = DeleteState(event.remote_partition_delete_state)
        except ValueError:
            return ReplayResult.UNREADABLE
        name = _name(event.topic_id_partition)
        held = self.partitions.get((name.topic_id, name.partition))
        if state not in DELETE_TRANSITIONS[held.delete_state if held is not None else None]:
            return ReplayResult.INVALID_TRANSITION
        if state is DeleteState.DELETE_PARTITION_FINISHED:
            del self.partitions[name.topic_id, name.partition]
        else:
            self._held(name, metadata_partition).delete_state = state
        return ReplayResult.APPLIED

    def _held(self, name: TopicIdPartition, metadata_partition: int) -> PartitionSegments:
        found = self.partitions.get((name.topic_id, name.partition))
        if found is None:
            found = self.partitions[name.topic_id, name.partition] = PartitionSegments(name, metadata_partition)
        return found

    def _count(self, metadata_partition: int, result: ReplayResult) -> None:
        counts = self.counts
        match result:
            case ReplayResult.APPLIED:
                counts.applied += 1
            case ReplayResult.INVALID_TRANSITION:
                counts.invalid_transitions += 1
            case ReplayResult.UNKNOWN_SEGMENT if self.following.is_ready(metadata_partition):
                counts.unknown_segments += 1
            case ReplayResult.UNKNOWN_SEGMENT:
                counts.unknown_while_loading += 1
            case ReplayResult.UNREADABLE:
                counts.unreadable += 1
            case ReplayResult.IMPOSSIBLE:
                counts.impossible += 1


def segment_event(name: TopicIdPartition, segment: RemoteSegment) -> RemoteLogSegmentMetadataRecord:
    """The event that announces a segment."""
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=RemoteLogSegmentIdEntry(topic_id_partition=_entry(name), id=segment.id),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=segment.broker_id,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=segment.event_timestamp_ms,
        segment_leader_epochs=[
            SegmentLeaderEpochEntry(leader_epoch=epoch, offset=start) for epoch, start in segment.epochs
        ],
        segment_size_in_bytes=segment.size_bytes,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=int(segment.state),
        txn_index_empty=segment.txn_index_empty,
    )


def update_event(name: TopicIdPartition, segment: RemoteSegment) -> RemoteLogSegmentMetadataUpdateRecord:
    """The event that moves a segment to the state it has here."""
    return RemoteLogSegmentMetadataUpdateRecord(
        remote_log_segment_id=RemoteLogSegmentIdEntry(topic_id_partition=_entry(name), id=segment.id),
        broker_id=segment.broker_id,
        event_timestamp_ms=segment.event_timestamp_ms,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=int(segment.state),
    )


def segment_of(event: Any, state: SegmentState) -> RemoteSegment:
    """The segment that an event announces."""
    return RemoteSegment(
        event.remote_log_segment_id.id,
        event.start_offset,
        event.end_offset,
        event.max_timestamp_ms,
        event.event_timestamp_ms,
        event.segment_size_in_bytes,
        event.broker_id,
        tuple(sorted({entry.leader_epoch: entry.offset for entry in event.segment_leader_epochs}.items())),
        state,
        event.txn_index_empty,
        event.custom_metadata,
    )


def state_of(id: int) -> SegmentState | None:
    """The state of an id, if it is one."""
    return _STATES.get(id)


_STATES: Mapping[int, SegmentState] = {state.value: state for state in SegmentState}


def _gives_up_what_is_finished(before: RemoteSegment, custom_metadata: bytes | None) -> bool:
    """Whether a deletion was decided by somebody who had not read that the copy was finished.

    An update repeats the custom metadata of what it was decided from, Kafka's own too. Others may have let go of the
    records as soon as they read of the end of the copy, so it stays.
    """
    finished = before.state is SegmentState.COPY_SEGMENT_FINISHED
    return finished and before.custom_metadata is not None and custom_metadata is None


def _entry(name: TopicIdPartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(name=name.topic, id=name.topic_id, partition=name.partition)


def _name(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    return TopicIdPartition(entry.id, entry.partition, entry.name)
