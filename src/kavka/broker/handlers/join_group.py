"""JoinGroup: v0-9.

Behaviour:  answers when all members have joined, or their time is over. From v4 a new member first gets its id (79).
Errors:     24 no group id, 26 a bad session timeout, 23 protocols that the others do not know, 25 no member, 81 full,
            82 fenced.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.coordination import client_of
from kavka.broker.handlers.marks import handler, on_group
from kavka.coordinator.classic.replies import join_refused
from kavka.model.errors import InvalidGroupId
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation


@handler(JoinGroupRequest, needs=on_group(Operation.READ))
async def join_group(request: JoinGroupRequest, ctx: Context, groups: Groups) -> JoinGroupResponse:
    """Become a member of a classic group."""
    try:
        return await groups.join(request, client_of(ctx))
    except InvalidGroupId as error:
        return join_refused(error.code, request.member_id, ctx.api_version)
