"""What a client knows of a cluster: its nodes, topics and leaders, as one immutable value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.model.errors import KafkaError, error_class
from kavka.model.errors import error_for as error_for
from kavka.model.errors import raise_for as raise_for
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.schemas.metadata import MetadataResponse, MetadataResponseTopic


class Node(NamedTuple):
    """A broker and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The leader, replicas and ISR of a partition."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic and its partitions, or the error that its name was answered with."""

    name: str
    id: Uuid
    internal: bool
    partitions: Mapping[int, PartitionView]
    error: type[KafkaError] | None = None
    available: tuple[int, ...] = ()
    """The partitions that have a leader, or all of them if none has."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything the last metadata answers said."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    names: Mapping[Uuid, str] = field(default_factory=dict)

    def leader(self, topic: str, partition: int) -> int:
        """The leader of a partition, -1 if none is known."""
        found = self.partition(topic, partition)
        return found.leader if found is not None else -1

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        """A partition, if it is known."""
        view = self.topics.get(topic)
        return view.partitions.get(partition) if view is not None else None

    def missing(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those partitions whose leader is not known."""
        return [tp for tp in partitions if self.leader(*tp) < 0]


def read_metadata(response: MetadataResponse, before: ClusterView, asked: Iterable[str] | None) -> ClusterView:
    """The view after a metadata answer: the topics asked for are replaced, the others stay."""
    nodes = {broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers}
    topics = {} if asked is None else dict(before.topics)
    for name in asked or ():
        topics.pop(name, None)
    for topic in response.topics:
        if topic.name is not None:
            topics[topic.name] = _topic(topic.name, topic)
    return ClusterView(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        nodes=nodes,
        topics=topics,
        names={topic.id: topic.name for topic in topics.values() if topic.id != Uuid.ZERO},
    )


def _topic(name: str, topic: MetadataResponseTopic) -> TopicView:
    partitions = {
        row.partition_index: PartitionView(
            leader=row.leader_id,
            leader_epoch=row.leader_epoch,
            replicas=tuple(row.replica_nodes),
            isr=tuple(row.isr_nodes),
            offline=tuple(row.offline_replicas),
        )
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
    }
    led = tuple(index for index, partition in partitions.items() if partition.leader >= 0)
    return TopicView(
        name=name,
        id=topic.topic_id,
        internal=topic.is_internal,
        partitions=partitions,
        error=error_class(topic.error_code) if topic.error_code else None,
        available=led or tuple(partitions),
    )
