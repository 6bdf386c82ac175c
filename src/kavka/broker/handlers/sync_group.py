"""SyncGroup: v0-5.

Behaviour:  answers when the group's leader has sent the assignments.
Errors:     22 another generation, 23 another protocol (from v5 its type and name must be given), 25 no member,
            27 rebalance, 82 fenced.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_group
from kavka.model.errors import InconsistentGroupProtocol
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation


@handler(SyncGroupRequest, needs=on_group(Operation.READ))
async def sync_group(request: SyncGroupRequest, ctx: Context, groups: Groups) -> SyncGroupResponse:
    """Get an assignment."""
    if ctx.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        raise InconsistentGroupProtocol("the protocol's type and name are missing")
    return await groups.sync(request)
