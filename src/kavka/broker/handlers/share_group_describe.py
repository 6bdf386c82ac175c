"""ShareGroupDescribe: v1.

Behaviour:  share groups with their members and the assignments of these.
Errors:     one per group: 14, 16, 24 no group id, 29 a topic that may not be described, 30, 69 not there or of another
            type; 35 while share.version is off.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.broker.sharing import require_share_groups
from kavka.coordinator.share.kind import ShareKind
from kavka.metadata.view import MetadataView
from kavka.model.errors import GroupAuthorizationFailed, InvalidGroupId, KafkaError, TopicAuthorizationFailed
from kavka.protocol.schema import replace
from kavka.protocol.schemas.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType

HIDDEN = "The group has topics that the client is not authorized to describe."


@handler(ShareGroupDescribeRequest, PER_ITEM, Parts(("group_ids",), ("groups",)))
async def share_group_describe(
    request: ShareGroupDescribeRequest, ctx: Context, groups: Groups, view: MetadataView
) -> ShareGroupDescribeResponse:
    """Describe share groups."""
    require_share_groups(view.image)
    allowed, refused = ctx.permitted(Operation.DESCRIBE, ResourceType.GROUP, request.group_ids, str)
    found = await groups.ask_each(ShareKind, allowed, ShareKind.describe, failed, named=True)
    found = [
        group if may_see(group, ctx) else failed(group.group_id, TopicAuthorizationFailed(HIDDEN)) for group in found
    ]
    if request.include_authorized_operations:
        found = [
            group
            if group.error_code
            else replace(group, authorized_operations=ctx.operations(ResourceType.GROUP, group.group_id))
            for group in found
        ]
    not_allowed = [failed(id_, GroupAuthorizationFailed()) for id_ in refused]
    return ShareGroupDescribeResponse(groups=[*not_allowed, *found])


def may_see(group: DescribedGroup, ctx: Context) -> bool:
    """Whether the client may know every topic that a group's members have."""
    if ctx.session.guard is None:
        return True
    names = {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}
    return all(ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


def failed(group_id: str, error: KafkaError) -> DescribedGroup:
    """A group that cannot be described here and now."""
    return DescribedGroup(
        error_code=error.code,
        error_message=None if isinstance(error, InvalidGroupId) else error.message or None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
