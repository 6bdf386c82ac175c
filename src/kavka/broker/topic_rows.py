"""The rows of a Metadata response: topics and partitions as one client sees them."""

from __future__ import annotations

from typing import NamedTuple

from kavka.broker.context import Context
from kavka.broker.topology import alive, has_listener, offline_replicas
from kavka.metadata.image import MetadataImage, PartitionImage, TopicImage
from kavka.metadata.names import is_internal
from kavka.model.errors import LeaderNotAvailable, ListenerNotFound, ReplicaNotAvailable, TopicAuthorizationFailed
from kavka.model.types import Uuid
from kavka.protocol.schemas.metadata import MetadataResponsePartition, MetadataResponseTopic
from kavka.security.acl import Operation, ResourceType


class Look(NamedTuple):
    """What decides how rows look: the image, and who asks how."""

    image: MetadataImage
    ctx: Context
    operations: bool
    """Whether the client wants to know what it may do with each topic."""


def row_by_id(topic: TopicImage, look: Look) -> MetadataResponseTopic:
    """A topic that was asked for by its id; one that the client may not see does not get a name."""
    if look.ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return topic_row(topic, look)
    return error_row(TopicAuthorizationFailed.code, None, topic.id, look)


def error_row(code: int, name: str | None, id_: Uuid, look: Look) -> MetadataResponseTopic:
    """A topic of which nothing can be said."""
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=id_,
        is_internal=name is not None and is_internal(name),
        partitions=[],
        topic_authorized_operations=look.ctx.operations(
            ResourceType.TOPIC, name or "", wanted=look.operations and name is not None
        ),
    )


def topic_row(topic: TopicImage, look: Look) -> MetadataResponseTopic:
    """A topic and its partitions."""
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[partition_row(index, partition, look) for index, partition in topic.partitions.items()],
        topic_authorized_operations=look.ctx.operations(ResourceType.TOPIC, topic.name, wanted=look.operations),
    )


def partition_row(index: int, partition: PartitionImage, look: Look) -> MetadataResponsePartition:
    """A partition: its leader if it can be reached here, and its replicas."""
    image, listener, version = look.image, look.ctx.listener, look.ctx.api_version
    replicas, isr, leader, code = list(partition.replicas), list(partition.isr), partition.leader, 0
    if version == 0:  # only v0 leaves out whom it cannot reach, and calls that an error
        replicas, isr = alive(image, replicas, listener), alive(image, isr, listener)
        code = (
            ReplicaNotAvailable.code if len(replicas) + len(isr) < len(partition.replicas) + len(partition.isr) else 0
        )
    if not has_listener(image, leader, listener):
        code = ListenerNotFound.code if leader in image.cluster.brokers and version >= 6 else LeaderNotAvailable.code
        leader = -1
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener),
    )
