"""Metadata: v0-13.

Behaviour:  addresses are those of the listener that was asked on. v0 names no topic to mean all, later versions send
            null. From v12 topics may be named by id, and then names in the same request do not count. A topic that
            is not there is created if the client and auto.create.topics.enable allow it, and answered as created,
            where Kafka would answer UNKNOWN_TOPIC_OR_PARTITION till the client asks again.
Errors:     one per topic: 3 unknown, 17 invalid name, 100 unknown id; per partition 5 no leader, 72 the leader lacks
            the listener (v6+), 9 replicas cannot be reached (v0).
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.topic_rows import Look, error_row, row_by_id, topic_row
from kavka.broker.topology import (
    controller_id,
    missing_code,
    reachable_brokers,
)
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.model.errors import (
    InvalidRequest,
    TopicAuthorizationFailed,
    UnknownTopicId,
)
from kavka.model.settings import AUTO_CREATE_TOPICS_ENABLE
from kavka.model.types import Uuid
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kavka.quorum.topic_creation import TopicCreation
from kavka.security.acl import Operation, ResourceType


@handler(MetadataRequest, needs=PER_ITEM)
async def metadata(
    request: MetadataRequest, ctx: Context, view: MetadataView, settings: LiveSettings, creation: TopicCreation
) -> MetadataResponse:
    """Say which brokers, topics and partitions there are."""
    version, topics = ctx.api_version, request.topics
    names: dict[str, None] = {}
    forbidden: frozenset[str] = frozenset()
    everything = topics is None or (version == 0 and not topics)
    if topics is not None and not any(topic.topic_id != Uuid.ZERO for topic in topics):
        names = dict.fromkeys(topic.name for topic in topics if topic.name is not None)
        seen, hidden = ctx.permitted(Operation.DESCRIBE, ResourceType.TOPIC, names, str)
        if request.allow_auto_topic_creation and settings[AUTO_CREATE_TOPICS_ENABLE]:
            hidden += await create(seen, ctx, view, settings, creation)
        forbidden = frozenset(hidden)
    image = view.image
    look = Look(image, ctx, request.include_topic_authorized_operations)
    rows: list[MetadataResponseTopic] = []
    turn = Turn()
    if everything:
        for topic in image.topics.by_name.values():
            if ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, asked=False):
                rows.append(topic_row(topic, look))
            await turn.breathe()
    elif version < 12 and any(topic.name is None or topic.topic_id != Uuid.ZERO for topic in topics or ()):
        rows = [error_row(InvalidRequest.code, topic.name or "", topic.topic_id, look) for topic in topics or ()]
    elif ids := dict.fromkeys(topic.topic_id for topic in topics or () if topic.topic_id != Uuid.ZERO):
        known = image.topics.by_id
        for id_ in ids:
            rows.append(
                row_by_id(known[id_], look) if id_ in known else error_row(UnknownTopicId.code, None, id_, look)
            )
            await turn.breathe()
    else:
        by_name = image.topics.by_name
        for name in names:
            if name in by_name and name not in forbidden:
                rows.append(topic_row(by_name[name], look))
            else:
                code = TopicAuthorizationFailed.code if name in forbidden else missing_code(name)
                rows.append(error_row(code, name, Uuid.ZERO, look))
            await turn.breathe()
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in reachable_brokers(image, ctx.listener)
        ],
        cluster_id=view.cluster_id,
        controller_id=controller_id(image, view.node_id),
        topics=rows,
        cluster_authorized_operations=ctx.cluster_operations(wanted=request.include_cluster_authorized_operations),
    )


async def create(
    names: list[str], ctx: Context, view: MetadataView, settings: LiveSettings, creation: TopicCreation
) -> list[str]:
    """Create the topics that are not there; the names of those that the client may not create."""
    refused: list[str] = []
    missing = [name for name in names if name not in view.image.topics.by_name]
    if missing and not ctx.allows(Operation.CREATE, ResourceType.CLUSTER, asked=False):
        missing, refused = ctx.permitted(Operation.CREATE, ResourceType.TOPIC, missing, str)
    await creation.create_missing(dict.fromkeys(missing), settings.values)
    return refused
