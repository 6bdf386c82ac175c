"""What the log remembers of committed offsets, by group, topic and partition.

Offsets that a transaction commits wait, by producer id, until its marker says whether they count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kavka.coordinator.offsets.records import (
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kavka.coordinator.record import Record
from kavka.model.types import Uuid

NO_PRODUCER: Final = -1


class CommittedOffset(NamedTuple):
    """How far a group has read a partition. -1 stands for a leader epoch or an expiry that was not given."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: Uuid
    record_offset: int
    """Where its record lies: of a transaction's offset and a plain one, the later counts."""


class PartitionId(NamedTuple):
    """What an offset is committed for."""

    group: str
    topic: str
    partition: int


Offsets = dict[str, dict[str, dict[int, CommittedOffset]]]
"""By group, topic and partition; nothing in it is empty."""


@dataclass(slots=True)
class OffsetsState:
    """The offsets of a shard."""

    committed: Offsets = field(default_factory=dict)
    pending: dict[int, dict[PartitionId, CommittedOffset]] = field(default_factory=dict)
    """By producer id: what its open transaction commits."""
    open: dict[str, dict[tuple[str, int], set[int]]] = field(default_factory=dict)
    """By group, and topic and partition: the producers whose transactions commit there."""

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """How far a group has read a partition."""
        return self.committed.get(group, {}).get(topic, {}).get(partition)

    def is_open(self, group: str, topic: str, partition: int) -> bool:
        """Whether a transaction that is not finished commits there."""
        found = self.open.get(group)
        return found is not None and (topic, partition) in found

    def of_group(self, group: str) -> Iterator[PartitionId]:
        """Everything that a group has committed, or that a transaction is about to commit for it."""
        for topic, partitions in self.committed.get(group, {}).items():
            for partition in partitions:
                yield PartitionId(group, topic, partition)
        for topic, partition in self.open.get(group, ()):
            if self.get(group, topic, partition) is None:
                yield PartitionId(group, topic, partition)

    def apply(self, place: PartitionId, value: CommittedOffset | None, producer_id: int) -> None:
        """Take in a record."""
        if value is None:
            self._remove(place)
        elif producer_id == NO_PRODUCER:
            self._put(place, value)
        else:
            self.pending.setdefault(producer_id, {})[place] = value
            self.open.setdefault(place.group, {}).setdefault((place.topic, place.partition), set()).add(producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take in the marker of a producer's transaction."""
        for place, value in self.pending.pop(producer_id, {}).items():
            self._close(place, producer_id)
            if committed:
                known = self.get(*place)
                if known is None or value.record_offset > known.record_offset:
                    self._put(place, value)

    def _put(self, place: PartitionId, value: CommittedOffset) -> None:
        self.committed.setdefault(place.group, {}).setdefault(place.topic, {})[place.partition] = value

    def _remove(self, place: PartitionId) -> None:
        topics = self.committed.get(place.group)
        if topics is not None and place.topic in topics:
            topics[place.topic].pop(place.partition, None)
            if not topics[place.topic]:
                del topics[place.topic]
            if not topics:
                del self.committed[place.group]
        for producer_id in self.open.get(place.group, {}).get((place.topic, place.partition), set()).copy():
            self._close(place, producer_id)
            pending = self.pending[producer_id]
            del pending[place]
            if not pending:
                del self.pending[producer_id]

    def _close(self, place: PartitionId, producer_id: int) -> None:
        partitions = self.open[place.group]
        producers = partitions[place.topic, place.partition]
        producers.discard(producer_id)
        if not producers:
            del partitions[place.topic, place.partition]
        if not partitions:
            del self.open[place.group]


def read_offset(value: OffsetCommitValue | LegacyOffsetCommitValue, record_offset: int) -> CommittedOffset:
    """An offset as its record has it."""
    if isinstance(value, LegacyOffsetCommitValue):
        return CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp, -1, Uuid.ZERO, record_offset)
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )


def offset_entry(place: PartitionId, value: OffsetCommitValue) -> Record:
    """A commit; only version 1 has room for an expiry of its own, which old clients ask for."""
    return Record(_key(place), value, 4 if value.expire_timestamp == -1 else 1)


def without_offset(place: PartitionId) -> Record:
    """An offset is forgotten, with what transactions would have made of it."""
    return Record(_key(place))


def _key(place: PartitionId) -> OffsetCommitKey:
    return OffsetCommitKey(group=place.group, topic=place.topic, partition=place.partition)
