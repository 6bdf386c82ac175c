"""DeleteGroups: v0-2.

Behaviour:  empty groups go, with their offsets; a group named twice is one.
Errors:     one per group: 68 it has members, 69 it is not there.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kavka.runtime.groups import Groups


@handler(DeleteGroupsRequest, needs=PER_ITEM)
async def delete_groups(request: DeleteGroupsRequest, ctx: Context, groups: Groups) -> DeleteGroupsResponse:
    """Delete groups."""
    results = await groups.delete(dict.fromkeys(request.groups_names), failed)
    return DeleteGroupsResponse(throttle_time_ms=0, results=results)


def failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    """A group that is not deleted."""
    return DeletableGroupResult(group_id=group_id, error_code=error.code)
