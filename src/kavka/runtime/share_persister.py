"""The share coordinators as group coordinators and leaders ask them: here through the shard, else by requests.

Whoever asks waits until it is known: what may pass (no coordinator yet, one that is being loaded, a node that does not
answer) is tried again for a while. An error that stays is raised, and never taken for an empty state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from kavka.coordinator.share_state.machine import ReadState, ShareCoordinator, StateChange, StateSummary
from kavka.coordinator.share_state.state import read_producer, write_producer
from kavka.model.clock import Clock
from kavka.model.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
    UnknownTopicOrPartition,
    error_for,
)
from kavka.model.share import SharePartitionKey, StateBatch
from kavka.protocol.schemas import delete_share_group_state as deleting
from kavka.protocol.schemas import initialize_share_group_state as initializing
from kavka.protocol.schemas import read_share_group_state as reading
from kavka.protocol.schemas import read_share_group_state_summary as summing
from kavka.protocol.schemas import write_share_group_state as writing
from kavka.runtime.shard import Decide
from kavka.runtime.share_states import ShareStates

T = TypeVar("T")

FIRST_PAUSE_MS: Final = 20
LAST_PAUSE_MS: Final = 1_000
PATIENCE_MS: Final = 20_000
"""How long what may pass is tried again: less than clients wait for an answer."""

UNREACHABLE: Final = (BrokerNotAvailable, NetworkException, RequestTimedOut)
PASSING: Final = (NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress, *UNREACHABLE)


class Reach(NamedTuple):
    """How a persister gets to the coordinators."""

    node_id: int
    clock: Clock
    ask: Callable[[int, Any], Awaitable[Any]]
    """Asks another node; raises KafkaError if it does not answer."""
    create_topic: Callable[[], Awaitable[None]]
    """Has the coordinators' topic created unless it is there; raises CoordinatorNotAvailable."""


class SharePersister:
    """Reads and writes the states of share partitions, wherever they are coordinated."""

    def __init__(self, states: ShareStates, reach: Reach) -> None:
        self._states = states
        self._reach = reach

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a state, or begin it anew; raises KafkaError."""
        row = initializing.PartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        topic = initializing.InitializeStateData(topic_id=key.topic_id, partitions=[row])
        await self._ask(
            key,
            lambda machine, now_ms: machine.initialize(key, state_epoch, start_offset, now_ms),
            initializing.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            nothing,
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        """The state for the leader of an epoch, which fences those before it; raises KafkaError."""
        row = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=key.topic_id, partitions=[row])
        return await self._ask(
            key,
            lambda machine, now_ms: machine.read(key, leader_epoch, now_ms),
            reading.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            read_state,
        )

    async def write(self, key: SharePartitionKey, change: StateChange) -> None:
        """Remember what a leader has decided; raises KafkaError."""
        row = writing.PartitionData(
            partition=key.partition,
            state_epoch=change.state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            state_batches=[
                writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in change.batches
            ],
            dead_letters=write_producer(change.dead_letters),
        )
        topic = writing.WriteStateData(topic_id=key.topic_id, partitions=[row])
        await self._ask(
            key,
            lambda machine, now_ms: machine.write(key, change, now_ms),
            writing.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            nothing,
        )

    async def delete(self, key: SharePartitionKey) -> None:
        """Forget a state; raises KafkaError."""
        topic = deleting.DeleteStateData(
            topic_id=key.topic_id, partitions=[deleting.PartitionData(partition=key.partition)]
        )
        await self._ask(
            key,
            lambda machine, _: machine.delete(key),
            deleting.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            nothing,
        )

    async def summary(self, key: SharePartitionKey) -> StateSummary:
        """Where a share partition stands; raises KafkaError."""
        row = summing.PartitionData(partition=key.partition, leader_epoch=-1)
        topic = summing.ReadStateSummaryData(topic_id=key.topic_id, partitions=[row])
        return await self._ask(
            key,
            lambda machine, _: machine.summary(key),
            summing.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic]),
            state_summary,
        )

    # -- asking -----------------------------------------------------------------------------------

    async def _ask(
        self, key: SharePartitionKey, decide: Decide[ShareCoordinator, T], request: Any, read: Callable[[Any], T]
    ) -> T:
        clock = self._reach.clock
        until_ms, pause_ms = clock.monotonic_ms() + PATIENCE_MS, FIRST_PAUSE_MS
        while True:
            try:
                return await self._once(key, decide, request, read)
            except KafkaError as error:
                may_pass = isinstance(error, PASSING)
                if isinstance(error, UnknownTopicOrPartition):
                    may_pass = self._states.knows(key)  # then the coordinator is only behind
                if not may_pass or clock.monotonic_ms() + pause_ms > until_ms:
                    raise CoordinatorNotAvailable(str(error)) if isinstance(error, UNREACHABLE) else error from error
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, LAST_PAUSE_MS)

    async def _once(
        self, key: SharePartitionKey, decide: Decide[ShareCoordinator, T], request: Any, read: Callable[[Any], T]
    ) -> T:
        coordinator = self._states.coordinator_of(key)
        if coordinator == self._reach.node_id:
            return await self._states.ask(key, decide)
        if coordinator < 0:
            await self._reach.create_topic()
            raise CoordinatorNotAvailable(f"{key} has no coordinator yet")
        answer = await self._reach.ask(coordinator, request)
        rows = [row for topic in answer.results for row in topic.partitions]
        if len(rows) != 1:
            raise CoordinatorNotAvailable(f"node {coordinator} did not answer for {key}")
        (row,) = rows
        if row.error_code:
            raise error_for(row.error_code, row.error_message)
        return read(row)


def nothing(row: Any) -> None:
    """An answer that says no more than that it is done."""


def read_state(row: reading.PartitionResult) -> ReadState:
    """What ReadShareGroupState says."""
    return ReadState(
        row.state_epoch,
        row.start_offset,
        tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in row.state_batches
        ),
        read_producer(row.dead_letters),
    )


def state_summary(row: summing.PartitionResult) -> StateSummary:
    """What ReadShareGroupStateSummary says."""
    return StateSummary(row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count)
