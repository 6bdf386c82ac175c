"""Administration of leaders and replicas: elections, reassignments, brokers and voters that leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kavka.client.pool import Pool
from kavka.client.view import error_for, raise_for
from kavka.model.errors import ElectionNotNeeded, KafkaError
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.schemas.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from kavka.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kavka.protocol.schemas.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kavka.protocol.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kavka.protocol.schemas.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kavka.protocol.schemas.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class Election(IntEnum):
    """The type of an election: of the preferred replica, or an unclean one, which may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A reassignment in progress: the replicas of a partition, those being added and those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PlacementAdmin:
    """The part of the admin client that moves things."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, election: Election = Election.PREFERRED
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of these partitions, or of all; the error of each, and nothing for those that need none."""
        topics = None
        if partitions is not None:
            topics = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in _grouped(partitions).items()]
        request = ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=self._pool.timeout_ms)
        answer = await self._pool.request(request, ElectLeadersResponse)
        raise_for(answer.error_code)
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for topic in answer.replica_election_results:
            for row in topic.partition_result:
                if row.error_code != ElectionNotNeeded.code:
                    error = error_for(row.error_code, row.error_message) if row.error_code else None
                    outcomes[TopicPartition(topic.topic, row.partition_id)] = error
        return outcomes

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Reassign partitions to these brokers, the preferred leader first; None cancels a reassignment."""
        topics: defaultdict[str, list[ReassignablePartition]] = defaultdict(list)
        for tp, brokers in replicas.items():
            wanted = None if brokers is None else list(brokers)
            topics[tp.topic].append(ReassignablePartition(partition_index=tp.partition, replicas=wanted))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._pool.timeout_ms,
            topics=[ReassignableTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        answer = await self._pool.request(request, AlterPartitionReassignmentsResponse)
        raise_for(answer.error_code, answer.error_message)
        for topic in answer.responses:
            for row in topic.partitions:
                raise_for(row.error_code, f"{topic.name}-{row.partition_index}: {row.error_message or ''}")

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The reassignments in progress."""
        answer = await self._pool.request(
            ListPartitionReassignmentsRequest(timeout_ms=self._pool.timeout_ms), ListPartitionReassignmentsResponse
        )
        raise_for(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    async def unregister_broker(self, broker: int) -> None:
        """Unregister a broker that is gone for good."""
        answer = await self._pool.request(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
        raise_for(answer.error_code, answer.error_message)

    async def add_voter(
        self, voter: int, directory_id: Uuid, endpoints: Mapping[str, tuple[str, int]], cluster_id: str | None = None
    ) -> None:
        """Add a voter to the metadata quorum; hosts and ports of its endpoints are given by listener name."""
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self._pool.timeout_ms,
            voter_id=voter,
            voter_directory_id=directory_id,
            listeners=[Listener(name=name, host=host, port=port) for name, (host, port) in endpoints.items()],
        )
        answer = await self._pool.request(request, AddRaftVoterResponse)
        raise_for(answer.error_code, answer.error_message)

    async def remove_voter(self, voter: int, directory_id: Uuid, cluster_id: str | None = None) -> None:
        """Remove a voter from the metadata quorum; `describe_quorum` has its directory id."""
        request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter, voter_directory_id=directory_id)
        answer = await self._pool.request(request, RemoveRaftVoterResponse)
        raise_for(answer.error_code, answer.error_message)


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        found[tp.topic].append(tp.partition)
    return dict(found)
