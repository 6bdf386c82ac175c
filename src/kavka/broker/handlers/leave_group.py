"""LeaveGroup: v0-5.

Behaviour:  from v3 several members at once, static ones by their instance id.
Errors:     from v3 one per member: 25 no member, 82 fenced; before, the one member's.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.coordination import client_of
from kavka.broker.handlers.marks import handler, on_group
from kavka.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation


@handler(LeaveGroupRequest, needs=on_group(Operation.READ))
async def leave_group(request: LeaveGroupRequest, ctx: Context, groups: Groups) -> LeaveGroupResponse:
    """End memberships."""
    return await groups.leave(request, client_of(ctx))
