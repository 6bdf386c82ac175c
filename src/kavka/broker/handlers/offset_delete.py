"""OffsetDelete: v0.

Behaviour:  deletes offsets of topics that the group is not subscribed to.
Errors:     one per partition: 3 unknown, 86 the group is subscribed to the topic; for the whole request 24, 68, 69, 14,
            15, 16.
"""

from __future__ import annotations

from operator import attrgetter

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_group
from kavka.metadata.image import MetadataImage
from kavka.metadata.view import MetadataView
from kavka.model.errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from kavka.protocol.schema import replace
from kavka.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType

LISTS = ("topics", "partitions")


@handler(OffsetDeleteRequest, on_group(Operation.DELETE), Parts(LISTS, LISTS, 400))
async def offset_delete(
    request: OffsetDeleteRequest, ctx: Context, groups: Groups, view: MetadataView
) -> OffsetDeleteResponse:
    """Forget offsets."""
    allowed, forbidden = ctx.permitted(Operation.READ, ResourceType.TOPIC, request.topics, attrgetter("name"))
    known = [there(topic, view.image) for topic in allowed]
    answer = await groups.delete_offsets(replace(request, topics=[topic for topic in known if topic.partitions]))
    answered = {topic.name: topic.partitions for topic in answer.topics}
    rows = [
        OffsetDeleteResponseTopic(
            name=topic.name, partitions=[*missing(topic, view.image), *answered.get(topic.name, ())]
        )
        for topic in allowed
    ]
    return replace(answer, topics=[*map(refused, forbidden), *rows])


def refused(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    """The rows of a topic that the client may not read."""
    code = TopicAuthorizationFailed.code
    rows = [
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
        for partition in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=rows)


def there(topic: OffsetDeleteRequestTopic, image: MetadataImage) -> OffsetDeleteRequestTopic:
    """A topic with those of its partitions that there are."""
    found = image.topics.by_name.get(topic.name)
    known = found.partitions if found is not None else {}
    return replace(
        topic, partitions=[partition for partition in topic.partitions if partition.partition_index in known]
    )


def missing(topic: OffsetDeleteRequestTopic, image: MetadataImage) -> list[OffsetDeleteResponsePartition]:
    """The rows of the partitions that there are not."""
    found = image.topics.by_name.get(topic.name)
    known = found.partitions if found is not None else {}
    return [
        OffsetDeleteResponsePartition(
            partition_index=partition.partition_index, error_code=UnknownTopicOrPartition.code
        )
        for partition in topic.partitions
        if partition.partition_index not in known
    ]
