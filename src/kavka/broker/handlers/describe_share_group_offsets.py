"""DescribeShareGroupOffsets: v0-1.

Behaviour:  the share-partition start offsets of groups, and from v1 their lag; of all partitions that have a state
            where no topics are named. What is not known is -1, and no error.
Errors:     one per group: 14, 16, 24 no group id, 30, 35 while share.version is off; one per partition: 29, and why
            its end offset is not known.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.broker.sharing import require_share_groups
from kavka.metadata.view import MetadataView
from kavka.model.errors import KafkaError, TopicAuthorizationFailed
from kavka.model.types import Uuid
from kavka.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kavka.runtime.share_groups import NO_POSITION, ShareGroups, SharePosition
from kavka.security.acl import Operation, ResourceType

Topic = DescribeShareGroupOffsetsResponseTopic
Asked = DescribeShareGroupOffsetsRequestTopic


@handler(
    DescribeShareGroupOffsetsRequest,
    PER_ITEM,
    Parts(("groups", "topics", "partitions"), ("groups", "topics", "partitions")),
)
async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, ctx: Context, shares: ShareGroups, view: MetadataView
) -> DescribeShareGroupOffsetsResponse:
    """Show where share groups start."""
    groups = []
    for group in request.groups:
        try:
            require_share_groups(view.image)
            ctx.require(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            topics, code, message = await described(group, ctx, shares, view), 0, None
        except KafkaError as error:
            topics, code, message = [], error.code, error.message or None
        groups.append(
            DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, topics=topics, error_code=code, error_message=message
            )
        )
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def described(
    group: DescribeShareGroupOffsetsRequestGroup, ctx: Context, shares: ShareGroups, view: MetadataView
) -> list[Topic]:
    """The topics of one group."""
    by_id, by_name = view.image.topics.by_id, view.image.topics.by_name
    if group.topics is None:
        known = await shares.initialized(group.group_id)
        everywhere = {id_: sorted(indexes) for id_, indexes in known.items() if id_ in by_id}
        allowed, _ = ctx.permitted(Operation.DESCRIBE, ResourceType.TOPIC, everywhere, lambda id_: by_id[id_].name)
        found = await shares.positions(group.group_id, {id_: everywhere[id_] for id_ in allowed})
        return [topic(by_id[id_].name, id_, everywhere[id_], rows) for id_, rows in found.items()]
    named, refused = ctx.permitted(Operation.DESCRIBE, ResourceType.TOPIC, group.topics, lambda asked: asked.topic_name)
    there = {by_name[asked.topic_name].id: asked for asked in named if asked.topic_name in by_name}
    found = await shares.positions(group.group_id, {id_: asked.partitions for id_, asked in there.items()})
    return [
        *(topic(there[id_].topic_name, id_, there[id_].partitions, rows) for id_, rows in found.items()),
        *(nowhere(asked, NO_POSITION) for asked in named if asked.topic_name not in by_name),
        *(nowhere(asked, NO_POSITION._replace(error=TopicAuthorizationFailed())) for asked in refused),
    ]


def nowhere(asked: Asked, position: SharePosition) -> Topic:
    """A topic of which nothing is known, or may be."""
    return topic(asked.topic_name, Uuid.ZERO, asked.partitions, [position] * len(asked.partitions))


def topic(name: str, topic_id: Uuid, indexes: list[int], positions: list[SharePosition]) -> Topic:
    """A topic's rows."""
    return Topic(
        topic_name=name,
        topic_id=topic_id,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=position.start_offset,
                leader_epoch=position.leader_epoch,
                lag=position.lag,
                error_code=0 if position.error is None else position.error.code,
                error_message=None if position.error is None else position.error.message or None,
            )
            for index, position in zip(indexes, positions, strict=True)
        ],
    )
