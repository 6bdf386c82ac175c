"""DeleteGroups: v0-2.

Behaviour:  empty groups go, with their offsets; a group named twice is one.
Errors:     one per group: 68 it has members, 69 it is not there.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.model.errors import GroupAuthorizationFailed, KafkaError
from kavka.protocol.schemas.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType


@handler(DeleteGroupsRequest, PER_ITEM, Parts(("groups_names",), ("results",)))
async def delete_groups(request: DeleteGroupsRequest, ctx: Context, groups: Groups) -> DeleteGroupsResponse:
    """Delete groups."""
    names = dict.fromkeys(request.groups_names)
    allowed, refused = ctx.permitted(Operation.DELETE, ResourceType.GROUP, names, str)
    results = [failed(name, GroupAuthorizationFailed()) for name in refused]
    if allowed:
        results += await groups.delete(allowed, failed)
    return DeleteGroupsResponse(throttle_time_ms=0, results=results)


def failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    """A group that is not deleted."""
    return DeletableGroupResult(group_id=group_id, error_code=error.code)
