"""ConsumerGroupDescribe: v0-1.

Behaviour:  consumer groups with their members, and the assignments and target assignments of these.
Errors:     one per group: 14, 16, 24 no group id, 69 not there or of another type; 35 while group.version is off.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.coordination import require_consumer_groups
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.coordinator.consumer.kind import ConsumerKind
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.model.errors import GroupAuthorizationFailed, KafkaError, TopicAuthorizationFailed
from kavka.protocol.schema import replace
from kavka.protocol.schemas.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType


@handler(ConsumerGroupDescribeRequest, PER_ITEM, Parts(("group_ids",), ("groups",)))
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: Context, groups: Groups, view: MetadataView, settings: LiveSettings
) -> ConsumerGroupDescribeResponse:
    """Describe consumer groups."""
    allowed, refused = ctx.permitted(Operation.DESCRIBE, ResourceType.GROUP, request.group_ids, str)
    try:
        require_consumer_groups(view.image, settings.values)
        found = await groups.ask_each(ConsumerKind, allowed, ConsumerKind.describe, failed, named=True)
    except KafkaError as error:
        found = [failed(id_, error) for id_ in allowed]
    found = [
        group if may_see_topics(group, ctx) else failed(group.group_id, TopicAuthorizationFailed()) for group in found
    ]
    if request.include_authorized_operations:
        found = [group if group.error_code else with_operations(group, ctx) for group in found]
    not_allowed = [failed(id_, GroupAuthorizationFailed()) for id_ in refused]
    return ConsumerGroupDescribeResponse(groups=[*not_allowed, *found])


def may_see_topics(group: DescribedGroup, ctx: Context) -> bool:
    """Whether the client may know every topic that a group's members have or want."""
    if ctx.session.guard is None:
        return True
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    names.update(name for member in group.members for name in member.subscribed_topic_names)
    return all(ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


def with_operations(group: DescribedGroup, ctx: Context) -> DescribedGroup:
    """A group with what the client may do with it."""
    return replace(group, authorized_operations=ctx.operations(ResourceType.GROUP, group.group_id))


def failed(group_id: str, error: KafkaError) -> DescribedGroup:
    """A group that cannot be described here and now."""
    return DescribedGroup(
        error_code=error.code,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
