"""OffsetCommit: v2-10.

Behaviour:  answers when the offsets are committed; each partition stands or falls by itself, but a member that may not
            commit commits nothing. From v10 topics are named by id.
Errors:     one per partition: 3 unknown, 12 metadata too long, 100 unknown topic id; for all of them 14, 15, 16, 22,
            25, 27, 69, 82, 113.
"""

from __future__ import annotations

from operator import attrgetter

from kavka.broker.context import Context
from kavka.broker.coordination import client_of
from kavka.broker.handlers.marks import Parts, handler, on_group
from kavka.metadata.image import MetadataImage, TopicImage
from kavka.metadata.view import MetadataView
from kavka.model.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition
from kavka.protocol.schema import replace
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType


@handler(
    OffsetCommitRequest,
    on_group(Operation.READ),
    Parts(("topics", "partitions"), ("topics", "partitions"), 400),
)
async def offset_commit(
    request: OffsetCommitRequest, ctx: Context, groups: Groups, view: MetadataView
) -> OffsetCommitResponse:
    """Remember how far a group has read."""
    known, refused = parted(request.topics, view.image, by_id=ctx.api_version >= 10)
    known, forbidden = ctx.permitted(Operation.READ, ResourceType.TOPIC, known, attrgetter("name"))
    refused += [failed(topic, TopicAuthorizationFailed.code) for topic in forbidden]
    answered: list[OffsetCommitResponseTopic] = []
    if known:
        try:
            answered = (await groups.commit_offsets(replace(request, topics=known), client_of(ctx))).topics
        except KafkaError as error:
            return OffsetCommitResponse(topics=[failed(topic, error.code) for topic in request.topics])
    return OffsetCommitResponse(topics=merged(refused, answered))


def parted(
    topics: list[OffsetCommitRequestTopic], image: MetadataImage, *, by_id: bool
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """What there is, with names and ids; and the answer for what there is not."""
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in topics:
        found: TopicImage | None = (
            image.topics.by_id.get(topic.topic_id) if by_id else image.topics.by_name.get(topic.name)
        )
        if found is None:
            refused.append(failed(topic, (UnknownTopicId if by_id else UnknownTopicOrPartition).code))
            continue
        named = replace(topic, name=found.name, topic_id=found.id)
        there = [partition for partition in topic.partitions if partition.partition_index in found.partitions]
        if len(there) < len(topic.partitions):
            missing = [partition for partition in topic.partitions if partition.partition_index not in found.partitions]
            refused.append(failed(replace(named, partitions=missing), UnknownTopicOrPartition.code))
        if there:
            known.append(replace(named, partitions=there))
    return known, refused


def failed(topic: OffsetCommitRequestTopic, error_code: int) -> OffsetCommitResponseTopic:
    """The same error for all partitions of a topic."""
    rows = [
        OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error_code)
        for partition in topic.partitions
    ]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows)


def merged(
    refused: list[OffsetCommitResponseTopic], answered: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """One row per topic."""
    topics: dict[object, OffsetCommitResponseTopic] = {}
    for topic in [*refused, *answered]:
        key = (topic.name, topic.topic_id)
        if key in topics:
            topics[key] = replace(topic, partitions=[*topics[key].partitions, *topic.partitions])
        else:
            topics[key] = topic
    return list(topics.values())
