"""ListGroups: v0-5.

Behaviour:  the groups that this node coordinates; from v4 of some states, from v5 of some types.
Errors:     14 while some of them are being loaded.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.list_groups import ListGroupsRequest, ListGroupsResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType


@handler(ListGroupsRequest, needs=PER_ITEM)
async def list_groups(request: ListGroupsRequest, ctx: Context, groups: Groups) -> ListGroupsResponse:
    """List groups."""
    found = await groups.list_groups(request.states_filter, request.types_filter)
    if not ctx.allows(Operation.DESCRIBE, ResourceType.CLUSTER, asked=False):
        allowed, turn = [], Turn()
        for group in found:
            if ctx.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, asked=False):
                allowed.append(group)
            await turn.breathe()
        found = allowed
    return ListGroupsResponse(error_code=0, groups=found)
