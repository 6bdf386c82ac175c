"""Administration of the cluster: its nodes, quorum, features, directories and producers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kavka.client.connection import Connection
from kavka.client.offsets import unwrap
from kavka.client.pool import Pool
from kavka.client.view import Node, error_for, raise_for
from kavka.model.errors import KafkaError, UnsupportedVersion
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kavka.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kavka.protocol.schemas.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kavka.protocol.schemas.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kavka.protocol.schemas.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kavka.protocol.schemas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from kavka.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id, its controller as clients see it, and its brokers."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()
    """Which of the nodes are fenced, if those were asked for."""


class ReplicaInfo(NamedTuple):
    """A partition's replica in a log directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a node; sizes are -1 where the node does not tell them."""

    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    cordoned: bool
    replicas: Mapping[TopicPartition, ReplicaInfo]


class ActiveProducer(NamedTuple):
    """The state of an active producer of a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class QuorumReplica(NamedTuple):
    """A voter or observer of the metadata quorum."""

    id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[str, ...]]


class FeatureRange(NamedTuple):
    """The levels of a feature that a node supports."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class Features:
    """What the asked node supports, and what the cluster has agreed on."""

    supported: Mapping[str, FeatureRange]
    finalized: Mapping[str, int]
    epoch: int


class UpgradeType(IntEnum):
    """Which way a feature level may move."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class ClusterAdmin:
    """The part of the admin client that deals with the cluster as a whole."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """The cluster's id, controller and brokers; from Kafka 4.0 on the fenced ones too, if asked for."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=include_fenced
        )
        try:
            answer = await self._pool.request(request, DescribeClusterResponse)
        except UnsupportedVersion:
            if not include_fenced:
                raise
            return await self.describe_cluster()
        raise_for(answer.error_code, answer.error_message)
        nodes = sorted(Node(row.broker_id, row.host, row.port, row.rack) for row in answer.brokers)
        fenced = frozenset(row.broker_id for row in answer.brokers if row.is_fenced)
        return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(nodes), fenced)

    async def describe_quorum(self) -> Quorum:
        """The voters and observers of the metadata log."""
        partition = RequestPartitionData(partition_index=0)
        request = DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[partition])]
        )
        # a node that knows no leader of the quorum answers late: on a lane it holds nothing else up
        answer = await self._pool.request(request, DescribeQuorumResponse, lane=DescribeQuorumRequest)
        raise_for(answer.error_code, answer.error_message)
        row = answer.topics[0].partitions[0]
        raise_for(row.error_code, row.error_message)
        return Quorum(
            leader_id=row.leader_id,
            leader_epoch=row.leader_epoch,
            high_watermark=row.high_watermark,
            voters=tuple(map(_replica, row.current_voters)),
            observers=tuple(map(_replica, row.observers)),
            endpoints={
                node.node_id: tuple(f"{listener.name}://{listener.host}:{listener.port}" for listener in node.listeners)
                for node in answer.nodes
            },
        )

    async def describe_features(self) -> Features:
        """The feature levels that a node supports and that the cluster has finalized."""
        request = ApiVersionsRequest(client_software_name="kavka", client_software_version="admin")
        answer = await self._pool.request(request, ApiVersionsResponse)
        raise_for(answer.error_code)
        return Features(
            supported={row.name: FeatureRange(row.min_version, row.max_version) for row in answer.supported_features},
            finalized={row.name: row.max_version_level for row in answer.finalized_features},
            epoch=answer.finalized_features_epoch,
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Finalize feature levels; 0 removes a feature."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._pool.timeout_ms,
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        answer = await self._pool.request(request, UpdateFeaturesResponse)
        raise_for(answer.error_code, answer.error_message)
        for row in answer.results:
            raise_for(row.error_code, row.error_message or f"feature {row.feature!r}: {error_for(row.error_code)}")

    async def describe_log_dirs(
        self, partitions: Iterable[TopicPartition] | None = None, *, nodes: Iterable[int] | None = None
    ) -> dict[int, list[LogDir]]:
        """The log directories of nodes with the replicas in them, of all partitions or of some."""
        topics = None
        if partitions is not None:
            by_topic: defaultdict[str, list[int]] = defaultdict(list)
            for tp in partitions:
                by_topic[tp.topic].append(tp.partition)
            topics = [DescribableLogDirTopic(topic=name, partitions=rows) for name, rows in by_topic.items()]
        known = (await self._pool.refresh()).nodes
        chosen = sorted(known if nodes is None else nodes)

        async def ask(node: int) -> list[LogDir]:
            answer = await self._pool.request(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, node=node)
            raise_for(answer.error_code)
            return [_log_dir(row) for row in answer.results]

        return dict(zip(chosen, await asyncio.gather(*map(ask, chosen)), strict=True))

    async def move_replicas(self, node: int, paths: Mapping[TopicPartition, str]) -> None:
        """Begin to move replicas of a node to other log directories of it; raises the first refusal.

        `describe_log_dirs` shows a replica that is on its way twice, in its new directory with `is_future`.
        """
        by_path: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for (topic, partition), path in paths.items():
            by_path[path][topic].append(partition)
        dirs = [
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=rows) for name, rows in topics.items()],
            )
            for path, topics in by_path.items()
        ]
        request = AlterReplicaLogDirsRequest(dirs=dirs)
        await self._pool.refresh()
        answer = await self._pool.request(request, AlterReplicaLogDirsResponse, node=node)
        for result in answer.results:
            for row in result.partitions:
                raise_for(
                    row.error_code, f"{result.topic_name}-{row.partition_index} on node {node}: {_why(row.error_code)}"
                )

    async def describe_producers(self, *partitions: TopicPartition) -> dict[TopicPartition, list[ActiveProducer]]:
        """The active producers of partitions."""

        async def ask(
            connection: Connection, part: Mapping[TopicPartition, None]
        ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            by_topic: defaultdict[str, list[int]] = defaultdict(list)
            for tp in part:
                by_topic[tp.topic].append(tp.partition)
            request = DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=rows) for name, rows in by_topic.items()]
            )
            answer = await connection.request(request, DescribeProducersResponse)
            return {
                TopicPartition(topic.name, row.partition_index): error_for(row.error_code, row.error_message)
                if row.error_code
                else [
                    ActiveProducer(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.coordinator_epoch,
                        producer.current_txn_start_offset,
                    )
                    for producer in row.active_producers
                ]
                for topic in answer.topics
                for row in topic.partitions
            }

        return unwrap(await self._pool.ask_leaders(dict.fromkeys(partitions), ask))


def _why(error_code: int) -> str:
    return str(error_for(error_code)) if error_code else ""


def _replica(row: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        row.replica_id,
        row.replica_directory_id,
        row.log_end_offset,
        row.last_fetch_timestamp,
        row.last_caught_up_timestamp,
    )


def _log_dir(row: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        path=row.log_dir,
        error=error_for(row.error_code) if row.error_code else None,
        total_bytes=row.total_bytes,
        usable_bytes=row.usable_bytes,
        cordoned=row.is_cordoned,
        replicas={
            TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
                partition.partition_size, partition.offset_lag, partition.is_future_key
            )
            for topic in row.topics
            for partition in topic.partitions
        },
    )
