"""How far groups are behind, as their coordinator sees it: what they have committed against the ends of the logs.

Ends of partitions that other nodes lead are asked of these, all of a node's in one request, every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

from kavka.coordinator.groups import GroupCoordinator
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.replica.manager import ReplicaManager
from kavka.runtime.shard import CoordinatorState
from kavka.runtime.shards import LISTED_AT_ONCE, Shards

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
STEP: Final = 1_000
"""So many ends are asked for in one request."""
CONSUMER: Final = -1
LATEST: Final = -1


class PartitionLag(NamedTuple):
    """How many records a group has not read of a partition."""

    group: str
    topic: str
    partition: int
    lag: int


class GroupLag:
    """The lag of the groups that this node coordinates, as it was at the last look."""

    def __init__(
        self,
        shards: Callable[[], Shards[GroupCoordinator] | None],
        replicas: ReplicaManager,
        ask: Callable[[int, Any], Awaitable[Any]],
    ) -> None:
        """`shards` are those of the group coordinator; None before it is made."""
        self._shards = shards
        self._replicas = replicas
        self._ask = ask
        self.partitions: list[PartitionLag] = []
        self.groups: Counter[tuple[str, str]] = Counter()
        """How many groups there are, by kind and state."""

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Exception:  # there is a next time, and the node goes on
                logger.exception("computing the lag of groups failed")

    async def look(self) -> None:
        """Compare what is committed with where the logs end."""
        committed: list[PartitionLag] = []
        groups: Counter[tuple[str, str]] = Counter()
        turn = Turn()
        for machine in self._machines():
            ids = list(machine.state.groups)
            for first in range(0, len(ids), LISTED_AT_ONCE):
                for listed in machine.list_groups(ids[first : first + LISTED_AT_ONCE]):
                    groups[listed.group_type, listed.group_state] += 1
                await turn.breathe()
            for group in list(machine.state.offsets.committed):
                for topic in list(machine.state.offsets.committed.get(group, ())):
                    committed += offsets(machine, group, topic)
                    await turn.breathe()
        ends = await self._ends({TopicPartition(found.topic, found.partition) for found in committed})
        self.groups = groups
        self.partitions = [
            found._replace(lag=max(end - found.lag, 0))
            for found in committed
            if (end := ends.get(TopicPartition(found.topic, found.partition))) is not None
        ]

    def _machines(self) -> Iterator[GroupCoordinator]:
        for shard in self._shards() or ():
            if shard.state is CoordinatorState.ACTIVE:
                yield shard.machine

    async def _ends(self, wanted: set[TopicPartition]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for tp in wanted:
            partition = self._replicas.held(tp.topic, tp.partition)
            if partition is not None and partition.leads:
                ends[tp] = partition.high_watermark
            elif (known := self._replicas.leader_of(tp.topic, tp.partition)) is not None and known[0] >= 0:
                elsewhere.setdefault(known[0], []).append(tp)
        for leader, partitions in elsewhere.items():
            for first in range(0, len(partitions), STEP):
                ends |= await self._ends_at(leader, partitions[first : first + STEP])
        return ends

    async def _ends_at(self, leader: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        rows: dict[str, list[ListOffsetsPartition]] = {}
        for tp in partitions:
            row = ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=-1, timestamp=LATEST)
            rows.setdefault(tp.topic, []).append(row)
        topics = [ListOffsetsTopic(name=topic, partitions=asked) for topic, asked in rows.items()]
        try:
            answer = await self._ask(leader, ListOffsetsRequest(replica_id=CONSUMER, isolation_level=0, topics=topics))
        except (KafkaError, OSError) as error:
            logger.info("the lag of groups is not known on partitions of broker %d: %s", leader, error)
            return {}
        return {
            TopicPartition(topic.name, row.partition_index): row.offset
            for topic in answer.topics
            for row in topic.partitions
            if not row.error_code
        }


def offsets(machine: GroupCoordinator, group: str, topic: str) -> Iterator[PartitionLag]:
    """What a group has committed of a topic, where its lag is going to be."""
    for partition, committed in machine.state.offsets.committed.get(group, {}).get(topic, {}).items():
        yield PartitionLag(group, topic, partition, committed.offset)
