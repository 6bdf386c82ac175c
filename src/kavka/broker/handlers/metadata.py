"""Metadata: v0-13.

Behaviour:  addresses are those of the listener that was asked on. v0 names no topic to mean all, later versions send
            null. From v12 topics may be named by id, and then names in the same request do not count. A topic that
            is not there is created if the client and auto.create.topics.enable allow it, and answered as created,
            where Kafka would answer UNKNOWN_TOPIC_OR_PARTITION till the client asks again.
Errors:     one per topic: 3 unknown, 17 invalid name, 100 unknown id; per partition 5 no leader, 72 the leader lacks
            the listener (v6+), 9 replicas cannot be reached (v0).
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.topology import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    alive,
    controller_id,
    has_listener,
    missing_code,
    offline_replicas,
    reachable_brokers,
)
from kavka.metadata.image import MetadataImage, PartitionImage, TopicImage
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import is_internal
from kavka.metadata.view import MetadataView
from kavka.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    ListenerNotFound,
    ReplicaNotAvailable,
    UnknownTopicId,
)
from kavka.model.settings import AUTO_CREATE_TOPICS_ENABLE
from kavka.model.types import Uuid
from kavka.protocol.schemas.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.quorum.topic_creation import TopicCreation
from kavka.quorum.turn import Turn


class Look(NamedTuple):
    """What decides how rows look: the image, and who asks how."""

    image: MetadataImage
    listener: str
    version: int
    operations: int


@handler(MetadataRequest, needs=PER_ITEM)
async def metadata(
    request: MetadataRequest, ctx: Context, view: MetadataView, settings: LiveSettings, creation: TopicCreation
) -> MetadataResponse:
    """Say which brokers, topics and partitions there are."""
    version, topics = ctx.api_version, request.topics
    names: dict[str, None] = {}
    everything = topics is None or (version == 0 and not topics)
    if topics is not None and not any(topic.topic_id != Uuid.ZERO for topic in topics):
        names = dict.fromkeys(topic.name for topic in topics if topic.name is not None)
        if request.allow_auto_topic_creation and settings[AUTO_CREATE_TOPICS_ENABLE]:
            await creation.create_missing(names, settings.values)
    image, operations = view.image, TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    look = Look(image, ctx.listener, version, operations)
    if everything:
        rows, turn = [], Turn()
        for topic in image.topics.by_name.values():
            rows.append(topic_row(topic, look))
            await turn.breathe()
    elif version < 12 and any(one.name is None or one.topic_id != Uuid.ZERO for one in topics or ()):
        rows = [error_row(InvalidRequest.code, one.name or "", one.topic_id, look) for one in topics or ()]
    elif ids := dict.fromkeys(one.topic_id for one in topics or () if one.topic_id != Uuid.ZERO):
        known = image.topics.by_id
        rows = [
            topic_row(known[id_], look) if id_ in known else error_row(UnknownTopicId.code, None, id_, look)
            for id_ in ids
        ]
    else:
        by_name = image.topics.by_name
        rows = [
            topic_row(by_name[name], look) if name in by_name else error_row(missing_code(name), name, Uuid.ZERO, look)
            for name in names
        ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in reachable_brokers(image, ctx.listener)
        ],
        cluster_id=view.cluster_id,
        controller_id=controller_id(image, view.node_id),
        topics=rows,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def error_row(code: int, name: str | None, id_: Uuid, look: Look) -> MetadataResponseTopic:
    """A topic of which nothing can be said."""
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=id_,
        is_internal=name is not None and is_internal(name),
        partitions=[],
        topic_authorized_operations=NOT_ASKED if name is None else look.operations,
    )


def topic_row(topic: TopicImage, look: Look) -> MetadataResponseTopic:
    """A topic and its partitions."""
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[partition_row(index, one, look) for index, one in topic.partitions.items()],
        topic_authorized_operations=look.operations,
    )


def partition_row(index: int, one: PartitionImage, look: Look) -> MetadataResponsePartition:
    """A partition: its leader if it can be reached here, and its replicas."""
    image, listener, version, _ = look
    replicas, isr, leader, code = list(one.replicas), list(one.isr), one.leader, 0
    if version == 0:  # only v0 leaves out whom it cannot reach, and calls that an error
        replicas, isr = alive(image, replicas, listener), alive(image, isr, listener)
        code = ReplicaNotAvailable.code if len(replicas) + len(isr) < len(one.replicas) + len(one.isr) else 0
    if not has_listener(image, leader, listener):
        code = ListenerNotFound.code if leader in image.cluster.brokers and version >= 6 else LeaderNotAvailable.code
        leader = -1
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=one.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, one, listener),
    )
