"""DescribeGroups: v0-6.

Behaviour:  classic groups with their members. A group that is not there, or of another type, is shown as dead; from v6
            that is an error (69).
Errors:     one per group: 14, 16.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.coordinator.classic.kind import ClassicKind
from kavka.model.errors import GroupAuthorizationFailed, KafkaError
from kavka.protocol.schema import replace
from kavka.protocol.schemas.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType


@handler(DescribeGroupsRequest, PER_ITEM, Parts(("groups",), ("groups",)))
async def describe_groups(request: DescribeGroupsRequest, ctx: Context, groups: Groups) -> DescribeGroupsResponse:
    """Describe classic groups."""
    version = ctx.api_version
    allowed, refused = ctx.permitted(Operation.DESCRIBE, ResourceType.GROUP, request.groups, str)
    found = await groups.ask_each(
        ClassicKind, allowed, lambda kind, group_ids: kind.describe(group_ids, version), failed
    )
    if request.include_authorized_operations:
        found = [group if group.error_code else with_operations(group, ctx) for group in found]
    return DescribeGroupsResponse(groups=[*(failed(id_, GroupAuthorizationFailed()) for id_ in refused), *found])


def with_operations(group: DescribedGroup, ctx: Context) -> DescribedGroup:
    """A group with what the client may do with it."""
    return replace(group, authorized_operations=ctx.operations(ResourceType.GROUP, group.group_id))


def failed(group_id: str, error: KafkaError) -> DescribedGroup:
    """A group that cannot be described here and now."""
    return DescribedGroup(
        error_code=error.code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
    )
