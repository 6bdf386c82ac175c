"""AlterShareGroupOffsets: v0.

Behaviour:  sets the share-partition start offsets of an empty share group; one that is not there is made. Answered when
            the share coordinators have it.
Errors:     of the whole request 24, 30, 35 while share.version is off, 68 the group has members, 69 it is of another
            type; one per partition: 3, 29, and what the share coordinator says.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.broker.sharing import require_share_groups
from kavka.metadata.view import MetadataView
from kavka.model.errors import InvalidGroupId, KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition
from kavka.model.types import Uuid
from kavka.protocol.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kavka.runtime.share_groups import Outcomes, ShareGroups
from kavka.security.acl import Operation, ResourceType

UNKNOWN = UnknownTopicOrPartition("there is no such partition")


@handler(AlterShareGroupOffsetsRequest, PER_ITEM, Parts(("topics", "partitions"), ("responses", "partitions"), 200))
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, ctx: Context, shares: ShareGroups, view: MetadataView
) -> AlterShareGroupOffsetsResponse:
    """Move where a share group starts."""
    require_share_groups(view.image)
    ctx.require(Operation.READ, ResourceType.GROUP, request.group_id)
    by_name = view.image.topics.by_name
    allowed, refused = ctx.permitted(Operation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.topic_name)
    if not request.group_id:
        raise InvalidGroupId("a group id is missing")
    known = [topic for topic in allowed if topic.topic_name in by_name]
    offsets = {topic.topic_name: {row.partition_index: row.start_offset for row in topic.partitions} for topic in known}
    outcomes = await shares.alter_offsets(request.group_id, offsets)
    ids = {
        topic.topic_name: by_name[topic.topic_name].id if topic.topic_name in by_name else Uuid.ZERO
        for topic in allowed
    }
    ids |= {topic.topic_name: by_name[topic.topic_name].id for topic in refused if topic.topic_name in by_name}
    return AlterShareGroupOffsetsResponse(
        error_code=0,
        responses=[
            *(
                answered(topic, ids.get(topic.topic_name, Uuid.ZERO), {}, TopicAuthorizationFailed())
                for topic in refused
            ),
            *(answered(topic, ids[topic.topic_name], outcomes, UNKNOWN) for topic in allowed),
        ],
    )


def answered(
    asked: AlterShareGroupOffsetsRequestTopic, topic_id: Uuid, outcomes: Outcomes, otherwise: KafkaError
) -> AlterShareGroupOffsetsResponseTopic:
    """A topic's rows: what became of its partitions."""
    rows = outcomes.get(topic_id, {})
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=topic_id,
        partitions=[
            row_of(partition.partition_index, rows.get(partition.partition_index, otherwise))
            for partition in asked.partitions
        ],
    )


def row_of(index: int, error: KafkaError | None) -> AlterShareGroupOffsetsResponsePartition:
    """A partition's row."""
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else error.message or None,
    )
