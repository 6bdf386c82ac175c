"""DeleteShareGroupOffsets: v0.

Behaviour:  deletes the offsets of topics from an empty share group. Answered when the share coordinators have done it.
Errors:     of the whole request 24, 30, 35 while share.version is off, 68 the group has members, 69 it is not there;
            one per topic: 3 nothing to delete, 29, and what the share coordinator says.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.broker.sharing import require_share_groups
from kavka.metadata.view import MetadataView
from kavka.model.errors import InvalidGroupId, KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition
from kavka.model.types import Uuid
from kavka.protocol.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kavka.runtime.share_groups import ShareGroups
from kavka.security.acl import Operation, ResourceType


@handler(DeleteShareGroupOffsetsRequest, PER_ITEM, Parts(("topics",), ("responses",), 200))
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, ctx: Context, shares: ShareGroups, view: MetadataView
) -> DeleteShareGroupOffsetsResponse:
    """Forget where a share group starts."""
    require_share_groups(view.image)
    ctx.require(Operation.DELETE, ResourceType.GROUP, request.group_id)
    names = [topic.topic_name for topic in request.topics]
    allowed, refused = ctx.permitted(Operation.READ, ResourceType.TOPIC, names, str)
    if not request.group_id:
        raise InvalidGroupId("a group id is missing")
    rows = [row(name, Uuid.ZERO, TopicAuthorizationFailed()) for name in refused]
    by_topic, unknown = await shares.delete_offsets(request.group_id, allowed)
    by_id, nothing = view.image.topics.by_id, UnknownTopicOrPartition("the group has no offsets to delete there")
    rows += [row(name, Uuid.ZERO, nothing) for name in unknown]
    rows += [
        row(by_id[topic_id].name if topic_id in by_id else "", topic_id, error) for topic_id, error in by_topic.items()
    ]
    return DeleteShareGroupOffsetsResponse(error_code=0, responses=rows)


def row(name: str, topic_id: Uuid, error: KafkaError | None) -> DeleteShareGroupOffsetsResponseTopic:
    """A topic's row."""
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else error.message or None,
    )
