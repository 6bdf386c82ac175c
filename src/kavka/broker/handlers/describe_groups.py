"""DescribeGroups: v0-6.

Behaviour:  classic groups with their members. A group that is not there, or of another type, is shown as dead; from v6
            that is an error (69).
Errors:     one per group: 14, 16.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.topology import GROUP_OPERATIONS
from kavka.coordinator.classic.kind import ClassicKind
from kavka.model.errors import KafkaError
from kavka.protocol.schema import replace
from kavka.protocol.schemas.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kavka.runtime.groups import Groups


@handler(DescribeGroupsRequest, needs=PER_ITEM)
async def describe_groups(request: DescribeGroupsRequest, ctx: Context, groups: Groups) -> DescribeGroupsResponse:
    """Describe classic groups."""
    version = ctx.api_version
    found = await groups.ask_each(ClassicKind, request.groups, lambda kind, some: kind.describe(some, version), failed)
    if request.include_authorized_operations:
        found = [replace(one, authorized_operations=GROUP_OPERATIONS) if not one.error_code else one for one in found]
    return DescribeGroupsResponse(groups=found)


def failed(group_id: str, error: KafkaError) -> DescribedGroup:
    """A group that cannot be described here and now."""
    return DescribedGroup(
        error_code=error.code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
    )
