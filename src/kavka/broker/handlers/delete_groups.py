"""DeleteGroups: v0-2.

Behaviour:  deletes empty groups with their offsets, and of share groups the state of their partitions first. A group
            named twice is one.
Errors:     one per group: 68 it has members, 69 it is not there; of a share group what its states say.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.model.errors import GroupAuthorizationFailed, KafkaError
from kavka.protocol.schemas.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kavka.runtime.groups import Groups
from kavka.runtime.share_groups import ShareGroups
from kavka.security.acl import Operation, ResourceType


@handler(DeleteGroupsRequest, PER_ITEM, Parts(("groups_names",), ("results",)))
async def delete_groups(
    request: DeleteGroupsRequest, ctx: Context, groups: Groups, shares: ShareGroups
) -> DeleteGroupsResponse:
    """Delete groups."""
    names = dict.fromkeys(request.groups_names)
    allowed, refused = ctx.permitted(Operation.DELETE, ResourceType.GROUP, names, str)
    results = [failed(name, GroupAuthorizationFailed()) for name in refused]
    if allowed:
        stay = await shares.delete_states(allowed)
        results += [failed(name, error) for name, error in stay.items()]
        results += await groups.delete([name for name in allowed if name not in stay], failed)
    return DeleteGroupsResponse(results=results)


def failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    """A group that is not deleted."""
    return DeletableGroupResult(group_id=group_id, error_code=error.code)
