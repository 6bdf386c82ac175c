"""The share coordinator of one partition of `__share_group_state` (KIP-932).

Deciding methods read and return a `Transition`, or raise what Kafka answers for that share partition; `replay` is the
only writer. The leader of a partition reads a group's state with its leader epoch: the record by which that epoch is
remembered fences every leader before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kavka.coordinator.record import Record, RecordCodec, Unknown
from kavka.coordinator.share_state.batches import combine
from kavka.coordinator.share_state.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kavka.coordinator.share_state.state import (
    NO_EPOCH,
    SharePartitionStates,
    ShareState,
    snapshot,
    tombstone,
    write,
    write_producer,
)
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.model.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, UnknownTopicOrPartition
from kavka.model.settings import coordinators as keys
from kavka.model.settings.values import Values
from kavka.model.share import ARCHIVED, NO_START_OFFSET, DeadLetterProducer, SharePartitionKey, StateBatch
from kavka.model.transition import Divisible, Effect, Publish, SetTimer, Transition
from kavka.model.types import Uuid

PRUNE: Final = "prune"
"""The timer by which records that nobody needs are deleted."""
COLD: Final = "cold"
"""The timer by which states that do not change are written anew, so that what is before them can be deleted."""

UNKNOWN_COUNT: Final = -1


class Prune(NamedTuple):
    """What the log has before an offset may be deleted."""

    offset: int


class ReadState(NamedTuple):
    """What a leader is told of a share partition."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    dead_letters: DeadLetterProducer | None = None


class StateSummary(NamedTuple):
    """What the group coordinator is told of one."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class StateChange(NamedTuple):
    """What a leader writes."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]
    dead_letters: DeadLetterProducer | None = None
    """None leaves it as it is."""


UNINITIALIZED: Final = StateSummary(0, 0, NO_START_OFFSET, UNKNOWN_COUNT)


class ShareStateCodec(RecordCodec):
    """Passes over batches that could not be in any share partition."""

    def checked(self, record: Record) -> Record | Unknown:
        """A record, if its batches can be taken in."""
        for each in record.value.state_batches:
            if each.first_offset > each.last_offset:
                return Unknown(f"a batch of records from {each.first_offset} to {each.last_offset}")
        return record


CODEC: Final = ShareStateCodec([(ShareSnapshotKey, ShareSnapshotValue), (ShareUpdateKey, ShareUpdateValue)])


class ShareCoordinator:
    """The machine of one shard."""

    def __init__(self, values: Values, image: MetadataImage) -> None:
        self.state = SharePartitionStates()
        self._values = values
        self._image = image

    # -- the shard's life -------------------------------------------------------------------------

    def replay(self, record: Record, offset: int, producer_id: int = -1) -> None:
        """Take in a record of the log: while loading, and right after appending what was decided."""
        self.state.replay(record, offset)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nobody writes to this log in transactions."""

    def on_loaded(self, now_ms: int) -> Transition[None]:
        """Begin to serve; topics may have been deleted while nobody did."""
        topics = self._image.topics.by_id
        gone = {key.topic_id for key in self.state.states if key.topic_id not in topics}
        effects = tuple(self._timer(each, now_ms) for each in (PRUNE, COLD))
        return Transition(None, self._forget(gone), effects)

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> Transition[None]:
        """Go by a later image of the cluster's metadata; the states of deleted topics are forgotten."""
        self._image = image
        return Transition(None, self._forget(delta.deleted_topics)) if delta.deleted_topics else Transition(None)

    def on_settings(self, values: Values) -> None:
        """Go by other settings of the node."""
        self._values = values

    def on_timer(self, key: str, now_ms: int) -> Transition[None]:
        """A timer has gone off."""
        again = self._timer(key, now_ms)
        if key == COLD:
            return Transition(None, self._cold(now_ms), (again,))
        offset = self.state.prune_offset
        return Transition(None, (), (Publish(Prune(offset)), again) if offset > 0 else (again,))

    def _timer(self, key: str, now_ms: int) -> Effect:
        setting = (
            keys.SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS
            if key == PRUNE
            else keys.SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS
        )
        return SetTimer(key, now_ms + self._values[setting])

    def _forget(self, topics: Iterable[Uuid]) -> Divisible:
        gone = frozenset(topics)
        return Divisible(tombstone(key) for key in self.state.states if key.topic_id in gone)

    def _cold(self, now_ms: int) -> Divisible:
        states = self.state.states
        if all(each.is_cold for each in states.values()):
            return Divisible()
        since = now_ms - self._values[keys.SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS]
        return Divisible(
            snapshot(key, replace(each, snapshot_epoch=each.snapshot_epoch + 1, write_ms=now_ms))
            for key, each in states.items()
            if each.write_ms <= since
        )

    # -- requests ---------------------------------------------------------------------------------

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int) -> Transition[None]:
        """Begin the state of a share partition, or begin it anew."""
        _check_partition(key)
        state = self.state.states.get(key)
        if state is not None:
            _check_state_epoch(state, state_epoch)
        self._check_topic(key)
        if state is not None and start_offset == NO_START_OFFSET and state.state_epoch == state_epoch:
            return Transition(None)  # it was begun, and may have been written since: this request comes late
        new = ShareState(
            0 if state is None else state.snapshot_epoch + 1,
            state_epoch,
            0,
            start_offset,
            UNKNOWN_COUNT if start_offset == NO_START_OFFSET else 0,
            [],
            now_ms,
            now_ms,
            0,
            0,
            0,
        )
        return Transition(None, (snapshot(key, new),))

    def read(self, key: SharePartitionKey, leader_epoch: int, now_ms: int) -> Transition[ReadState]:
        """The state for a leader; one with a new epoch fences those before it."""
        _check_partition(key)
        state = self._known(key)
        _check_leader_epoch(state, leader_epoch)
        self._check_topic(key)
        reply = ReadState(state.state_epoch, state.start_offset, tuple(state.batches), state.dead_letters)
        if leader_epoch in (NO_EPOCH, state.highest_leader_epoch):
            return Transition(reply)
        change = StateChange(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())
        return Transition(reply, (self._entry(key, state, change, leader_epoch, now_ms),))

    def write(self, key: SharePartitionKey, change: StateChange, now_ms: int) -> Transition[None]:
        """Remember what a leader has decided."""
        _check_partition(key)
        state = self._known(key)
        _check_leader_epoch(state, change.leader_epoch)
        _check_state_epoch(state, change.state_epoch)
        self._check_topic(key)
        for each in change.batches:
            if each.first_offset > each.last_offset or not 0 <= each.delivery_state <= ARCHIVED:
                raise InvalidRequest(f"{each} is no state of records")
        if _is_late(state, change):
            return Transition(None)
        if change.leader_epoch == state.leader_epoch and 0 <= change.start_offset < state.start_offset:
            change = change._replace(  # it comes late too, for a leader never goes back
                start_offset=state.start_offset, delivery_complete_count=state.delivery_complete_count
            )
        return Transition(None, (self._entry(key, state, change, state.leader_epoch, now_ms),))

    def delete(self, key: SharePartitionKey) -> Transition[None]:
        """Forget a state; one that is not there is forgotten already."""
        _check_partition(key)
        self._check_topic(key)
        return Transition(None, (tombstone(key),) if key in self.state.states else ())

    def summary(self, key: SharePartitionKey) -> Transition[StateSummary]:
        """Where a share partition stands."""
        _check_partition(key)
        self._check_topic(key)
        state = self.state.states.get(key)
        if state is None:
            return Transition(UNINITIALIZED)
        return Transition(
            StateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)
        )

    def _entry(
        self, key: SharePartitionKey, state: ShareState, change: StateChange, leader_epoch: int, now_ms: int
    ) -> Record:
        """What changes; now and then the whole state with it."""
        if state.updates >= self._values[keys.SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT]:
            start = state.start_offset if change.start_offset == NO_START_OFFSET else change.start_offset
            batches = list(state.batches)
            combine(batches, change.batches, start)
            whole = replace(
                state,
                snapshot_epoch=state.snapshot_epoch + 1,
                start_offset=start,
                delivery_complete_count=change.delivery_complete_count,
                leader_epoch=leader_epoch,
                batches=batches,
                create_ms=now_ms,
                write_ms=now_ms,
                dead_letters=change.dead_letters or state.dead_letters,
            )
            return snapshot(key, whole)
        batches = []
        combine(batches, change.batches, change.start_offset)
        value = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            state_batches=write(batches),
            dead_letters=write_producer(change.dead_letters),
        )
        return Record(ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), value)

    def _known(self, key: SharePartitionKey) -> ShareState:
        state = self.state.states.get(key)
        if state is None:
            raise InvalidRequest(f"the state of {key} was never initialized")
        return state

    def _check_topic(self, key: SharePartitionKey) -> None:
        topic = self._image.topics.by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise UnknownTopicOrPartition(f"there is no partition {key.partition} of topic {key.topic_id}")


def _is_late(state: ShareState, change: StateChange) -> bool:
    """Whether its leader has written dead letters since, and so gave it up or was answered another time."""
    said, known = change.dead_letters, state.dead_letters
    return said is not None and known is not None and said.number < known.number


def _check_partition(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise InvalidRequest(f"{key.partition} is no partition")


def _check_leader_epoch(state: ShareState, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and leader_epoch < state.highest_leader_epoch:
        raise FencedLeaderEpoch(f"the leader of epoch {state.highest_leader_epoch} has the state")


def _check_state_epoch(state: ShareState, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and state_epoch < state.highest_state_epoch:
        raise FencedStateEpoch(f"the state is at epoch {state.highest_state_epoch}")
