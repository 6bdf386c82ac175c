"""Heartbeat: v0-4.

Behaviour:  a member of a classic group says that it is alive, and hears of a rebalance.
Errors:     22 another generation, 25 no member, 27 rebalance, 82 fenced; none while the group is being loaded, because
            it is known only afterwards whether anything is wrong.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_group
from kavka.model.errors import CoordinatorLoadInProgress
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation


@handler(HeartbeatRequest, needs=on_group(Operation.READ))
async def heartbeat(request: HeartbeatRequest, ctx: Context, groups: Groups) -> HeartbeatResponse:
    """Stay a member."""
    try:
        return await groups.heartbeat(request)
    except CoordinatorLoadInProgress:
        return HeartbeatResponse(error_code=0)
