"""What `__share_group_state` remembers: `replay` is its only writer."""

from __future__ import annotations

from dataclasses import dataclass, field

from kavka.coordinator.record import Record
from kavka.coordinator.share_state import records
from kavka.coordinator.share_state.batches import combine
from kavka.coordinator.share_state.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kavka.model.share import NO_START_OFFSET, DeadLetterProducer, SharePartitionKey, StateBatch
from kavka.protocol.schemas import read_share_group_state as schema

NO_EPOCH = -1


@dataclass(slots=True)
class ShareState:
    """The state of one share partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: list[StateBatch]
    create_ms: int
    write_ms: int
    snapshot_offset: int
    """Where its last snapshot is: the records before it say nothing more."""
    highest_leader_epoch: int
    highest_state_epoch: int
    updates: int = 0
    """How many there were since the last snapshot."""
    dead_letters: DeadLetterProducer | None = None

    @property
    def is_cold(self) -> bool:
        """Whether its last snapshot was written only because it is so old."""
        return self.create_ms != self.write_ms


@dataclass(slots=True)
class SharePartitionStates:
    """The states of a shard."""

    states: dict[SharePartitionKey, ShareState] = field(default_factory=dict)
    last_snapshot_offset: int = 0

    def replay(self, record: Record, offset: int) -> None:
        """Take in a record that lies at an offset."""
        key = SharePartitionKey(record.key.group_id, record.key.topic_id, record.key.partition)
        match record.key, record.value:
            case ShareSnapshotKey(), None:
                self.states.pop(key, None)
                self.last_snapshot_offset = offset
            case ShareSnapshotKey(), ShareSnapshotValue() as value:
                self._snapshot(key, value, offset)
                self.last_snapshot_offset = offset
            case ShareUpdateKey(), ShareUpdateValue() as value:
                self._update(key, value, offset)

    def _snapshot(self, key: SharePartitionKey, value: ShareSnapshotValue, offset: int) -> None:
        before = self.states.get(key)
        leader_epochs, state_epochs = [value.leader_epoch], [value.state_epoch]
        if before is not None:
            leader_epochs.append(before.highest_leader_epoch)
            state_epochs.append(before.highest_state_epoch)
        self.states[key] = ShareState(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            read(value.state_batches),
            value.create_timestamp,
            value.write_timestamp,
            offset,
            max(leader_epochs),
            max(state_epochs),
            dead_letters=read_producer(value.dead_letters),
        )

    def _update(self, key: SharePartitionKey, value: ShareUpdateValue, offset: int) -> None:
        state = self.states.get(key)
        if state is None:  # its snapshot is gone: as much as is known
            state = ShareState(value.snapshot_epoch, 0, NO_EPOCH, NO_START_OFFSET, -1, [], 0, 0, offset, NO_EPOCH, 0)
            self.states[key] = state
        if value.start_offset != NO_START_OFFSET:
            state.start_offset = value.start_offset
        if value.leader_epoch != NO_EPOCH:
            state.leader_epoch = value.leader_epoch
        state.highest_leader_epoch = max(state.highest_leader_epoch, value.leader_epoch)
        state.delivery_complete_count = value.delivery_complete_count
        if value.dead_letters is not None:
            state.dead_letters = read_producer(value.dead_letters)
        combine(state.batches, read(value.state_batches), state.start_offset)
        state.updates += 1

    @property
    def prune_offset(self) -> int:
        """The records before it are not needed by anyone."""
        return min((each.snapshot_offset for each in self.states.values()), default=self.last_snapshot_offset)


def read(batches: list[records.StateBatch]) -> list[StateBatch]:
    """Batches as the log has them."""
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches
    ]


def write(batches: list[StateBatch]) -> list[records.StateBatch]:
    """Batches for the log."""
    return [
        records.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def read_producer(producer: schema.DeadLetterProducer | None) -> DeadLetterProducer | None:
    """The producer of dead letters as logs and requests have it."""
    if producer is None:
        return None
    return DeadLetterProducer(
        producer.producer_id, producer.sequence, producer.topic_id, producer.partition, producer.number
    )


def write_producer(producer: DeadLetterProducer | None) -> schema.DeadLetterProducer | None:
    """The producer of dead letters for logs and requests."""
    return None if producer is None else schema.DeadLetterProducer(**producer._asdict())


def snapshot(key: SharePartitionKey, state: ShareState) -> Record:
    """The record of a whole state."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=write(state.batches),
        dead_letters=write_producer(state.dead_letters),
    )
    return Record(_snapshot_key(key), value)


def tombstone(key: SharePartitionKey) -> Record:
    """The record that a state is forgotten."""
    return Record(_snapshot_key(key))


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
