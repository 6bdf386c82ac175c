"""OffsetFetch: v1-10.

Behaviour:  from v8 several groups; no topics (null, from v2) means all that a group has committed for. From v10 topics
            are named by id.
Errors:     one per group from v2 (16, 25, 113), one per partition before; 100 for an unknown topic id.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.metadata.image import MetadataImage
from kavka.metadata.view import MetadataView
from kavka.model.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    TopicAuthorizationFailed,
    UnknownTopicId,
)
from kavka.model.types import Uuid
from kavka.protocol.schema import replace
from kavka.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType

GROUPS = Parts(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), 1000)
TOPICS = Parts(("topics", "partition_indexes"), ("topics", "partitions"), 1000)


@handler(OffsetFetchRequest, PER_ITEM, GROUPS, TOPICS)
async def offset_fetch(
    request: OffsetFetchRequest, ctx: Context, groups: Groups, view: MetadataView
) -> OffsetFetchResponse:
    """Tell how far groups have read."""
    stable, version = request.require_stable, ctx.api_version
    if version >= 8:
        rows = [await fetch(group, ctx, groups, view, stable) for group in request.groups]
        return OffsetFetchResponse(groups=rows)
    return single(await fetch(only_group(request), ctx, groups, view, stable))


async def fetch(
    group: OffsetFetchRequestGroup, ctx: Context, groups: Groups, view: MetadataView, stable: bool
) -> OffsetFetchResponseGroup:
    """The answer for one group."""
    version = ctx.api_version
    by_id = version >= 10
    unknown: list[OffsetFetchResponseTopics] = []
    asked = group
    if by_id and group.topics is not None:
        asked, unknown = named(group, group.topics, view.image)
    if asked.topics is not None:
        allowed, forbidden = ctx.permitted(Operation.DESCRIBE, ResourceType.TOPIC, asked.topics, attrgetter("name"))
        asked = replace(asked, topics=allowed)
        unknown += [refused(topic, TopicAuthorizationFailed.code) for topic in forbidden]
    try:
        ctx.require(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        found = await groups.fetch_offsets(asked, stable=stable)
    except KafkaError as error:
        return failed(group, error, version)
    topics = with_ids(found.topics, view.image) if by_id else found.topics
    if asked.topics is None:
        topics, _ = ctx.permitted(Operation.DESCRIBE, ResourceType.TOPIC, topics, attrgetter("name"), asked=False)
    return replace(found, topics=[*topics, *unknown])


def named(
    group: OffsetFetchRequestGroup, topics: Sequence[OffsetFetchRequestTopics], image: MetadataImage
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """The request with the names of its topics; and the answer for topics that there are not."""
    known = [
        replace(topic, name=image.topics.by_id[topic.topic_id].name)
        for topic in topics
        if topic.topic_id in image.topics.by_id
    ]
    unknown = [refused(topic, UnknownTopicId.code) for topic in topics if topic.topic_id not in image.topics.by_id]
    return replace(group, topics=known), unknown


def with_ids(topics: list[OffsetFetchResponseTopics], image: MetadataImage) -> list[OffsetFetchResponseTopics]:
    """Topics with their ids; what has none any more cannot be told of."""
    found = []
    for topic in topics:
        known = image.topics.by_name.get(topic.name)
        if topic.topic_id != Uuid.ZERO:
            found.append(topic)
        elif known is not None:
            found.append(replace(topic, topic_id=known.id))
    return found


def refused(topic: OffsetFetchRequestTopics, error_code: int) -> OffsetFetchResponseTopics:
    """The same error for all partitions of a topic."""
    rows = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=error_code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=rows)


def failed(group: OffsetFetchRequestGroup, error: KafkaError, version: int) -> OffsetFetchResponseGroup:
    """A group's error, where its version has a place for it."""
    # Consumers older than 3.9 do not try again after error 15.
    code = NotCoordinator.code if isinstance(error, CoordinatorNotAvailable) else error.code
    if version >= 2:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
    topics = [refused(topic, code) for topic in group.topics or ()]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The one group of a request before v8."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )


def single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """A response before v8."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(name=topic.name, partitions=list(map(before_v8, topic.partitions)))
            for topic in group.topics
        ],
    )


def before_v8(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """The same row by another name."""
    return OffsetFetchResponsePartition(**{name: getattr(partition, name) for name in type(partition).__annotations__})
