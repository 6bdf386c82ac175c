"""Administration of topics: create, delete, describe, add partitions, delete records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kavka.client.connection import Connection
from kavka.client.offsets import FoundOffset, find_offsets, list_offsets, unwrap
from kavka.client.pool import Pool
from kavka.client.view import error_for, raise_for, read_metadata
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kavka.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kavka.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kavka.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kavka.protocol.schemas.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default. `assignments` gives each partition its replicas instead."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] | None = None
    assignments: Mapping[int, Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    """What was created, or would be."""

    name: str
    id: Uuid
    partitions: int
    replication_factor: int


class TopicListing(NamedTuple):
    """A topic in a list."""

    name: str
    id: Uuid
    internal: bool
    partitions: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition. The eligible leader replicas (KIP-966) are empty where the broker does not tell them."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    eligible_leaders: tuple[int, ...] = ()
    last_known_eligible_leaders: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and all its partitions."""

    name: str
    id: Uuid
    internal: bool
    partitions: tuple[PartitionDescription, ...]


class TopicsAdmin:
    """The part of the admin client that deals with topics."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic."""
        topic = NewTopic(name, partitions, replication_factor, configs, assignments)
        return (await self.create_topics([topic], validate_only=validate_only))[name]

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics; raises the first error after all were tried."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._pool.timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._pool.request(request, CreateTopicsResponse)
        created = {}
        for topic in answer.topics:
            created[topic.name] = CreatedTopic(
                topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor
            )
        for topic in answer.topics:
            raise_for(topic.error_code, topic.error_message or f"topic {topic.name!r}: {error_for(topic.error_code)}")
        return created

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all their records; raises the first error after all were tried."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=Uuid.ZERO) for name in names],
            timeout_ms=self._pool.timeout_ms,
        )
        answer = await self._pool.request(request, DeleteTopicsResponse)
        for topic in answer.responses:
            raise_for(topic.error_code, f"topic {topic.name!r}: {error_for(topic.error_code, topic.error_message)}")

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        await self.delete_topics([name])

    async def list_topics(self, *, internal: bool = False) -> list[TopicListing]:
        """All topics by name, internal ones only on request."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await self._pool.request(request, MetadataResponse)
        listed = [
            TopicListing(topic.name, topic.topic_id, topic.is_internal, len(topic.partitions))
            for topic in answer.topics
            if topic.name is not None and (internal or not topic.is_internal)
        ]
        return sorted(listed)

    async def describe_topic(self, name: str) -> TopicDescription:
        """A topic and its partitions."""
        return (await self.describe_topics([name]))[name]

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Topics and their partitions; raises the first error."""
        wanted = sorted(set(names))
        connection = await self._pool.any()
        if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in connection.versions:
            return await self._describe_by_metadata(wanted)
        partitions: defaultdict[str, list[PartitionDescription]] = defaultdict(list)
        described: dict[str, tuple[Uuid, bool]] = {}
        cursor = None
        while wanted:
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in wanted], cursor=cursor)
            answer = await self._pool.request(request, DescribeTopicPartitionsResponse)
            for topic in answer.topics:
                raise_for(topic.error_code, f"topic {topic.name!r}: {error_for(topic.error_code)}")
                assert topic.name is not None
                described[topic.name] = topic.topic_id, topic.is_internal
                partitions[topic.name] += map(_partition, topic.partitions)
            cursor = answer.next_cursor
            if cursor is None:
                break
            wanted = [name for name in wanted if name >= cursor.topic_name]
        return {
            name: TopicDescription(name, topic_id, internal, tuple(partitions[name]))
            for name, (topic_id, internal) in described.items()
        }

    async def create_partitions(
        self,
        topic: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Give a topic more partitions, so many in total; `assignments` gives the replicas of the new ones."""
        rows = (
            None if assignments is None else [CreatePartitionsAssignment(broker_ids=list(row)) for row in assignments]
        )
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=total, assignments=rows)],
            timeout_ms=self._pool.timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._pool.request(request, CreatePartitionsResponse)
        for result in answer.results:
            raise_for(result.error_code, result.error_message or f"topic {topic!r}: {error_for(result.error_code)}")

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete all records before an offset (-1: before the high watermark); the log start offsets after that."""

        async def ask(
            connection: Connection, part: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, int | KafkaError]:
            by_topic: defaultdict[str, list[DeleteRecordsPartition]] = defaultdict(list)
            for tp, offset in part.items():
                by_topic[tp.topic].append(DeleteRecordsPartition(partition_index=tp.partition, offset=offset))
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
                timeout_ms=self._pool.timeout_ms,
            )
            answer = await connection.request(request, DeleteRecordsResponse)
            return {
                TopicPartition(topic.name, row.partition_index): error_for(row.error_code)
                if row.error_code
                else row.low_watermark
                for topic in answer.topics
                for row in topic.partitions
            }

        return unwrap(await self._pool.ask_leaders(before, ask))

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset]:
        """The first offset at or after a time in ms; EARLIEST, LATEST and MAX_TIMESTAMP are special times."""
        return await list_offsets(self._pool, times, read_committed=read_committed)

    async def find_offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        """As `list_offsets`, with the error of each partition that has one."""
        return await find_offsets(self._pool, times, read_committed=read_committed)

    async def _describe_by_metadata(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        answer = await self._pool.request(request, MetadataResponse)
        view = read_metadata(answer, self._pool.view, None)
        described = {}
        for name, topic in view.topics.items():
            if topic.error is not None:
                raise topic.error(f"topic {name!r}: {topic.error()}")
            rows = [
                PartitionDescription(index, row.leader, row.leader_epoch, row.replicas, row.isr, row.offline)
                for index, row in topic.partitions.items()
            ]
            described[name] = TopicDescription(name, topic.id, topic.internal, tuple(rows))
        return described


def _creatable(topic: NewTopic) -> CreatableTopic:
    manual = topic.assignments is not None
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if manual else topic.partitions,
        replication_factor=-1 if manual else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in (topic.assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in (topic.configs or {}).items()],
    )


def _partition(row: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        index=row.partition_index,
        leader=row.leader_id,
        leader_epoch=row.leader_epoch,
        replicas=tuple(row.replica_nodes),
        isr=tuple(row.isr_nodes),
        offline=tuple(row.offline_replicas),
        eligible_leaders=tuple(row.eligible_leader_replicas or ()),
        last_known_eligible_leaders=tuple(row.last_known_elr or ()),
    )
