"""StreamsGroupDescribe: v0.

Behaviour:  streams groups with their topologies and members, the assignments and target assignments of these.
Errors:     one per group: 14, 16, 24 no group id, 29 a topic that the client may not describe, 69 not there or of
            another type; 35 while streams.version is off.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.coordination import require_streams_groups
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.coordinator.streams.kind import StreamsKind
from kavka.coordinator.streams.topology import names_in
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.model.errors import GroupAuthorizationFailed, KafkaError, TopicAuthorizationFailed
from kavka.protocol.schema import replace
from kavka.protocol.schemas.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType


@handler(StreamsGroupDescribeRequest, PER_ITEM, Parts(("group_ids",), ("groups",)))
async def streams_group_describe(
    request: StreamsGroupDescribeRequest, ctx: Context, groups: Groups, view: MetadataView, settings: LiveSettings
) -> StreamsGroupDescribeResponse:
    """Describe streams groups."""
    allowed, refused = ctx.permitted(Operation.DESCRIBE, ResourceType.GROUP, request.group_ids, str)
    try:
        require_streams_groups(view.image, settings.values)
        found = await groups.ask_each(StreamsKind, allowed, StreamsKind.describe, failed, named=True)
    except KafkaError as error:
        found = [failed(id_, error) for id_ in allowed]
    rows = [failed(id_, GroupAuthorizationFailed()) for id_ in refused]
    for group in found:
        if not may_see_topics(group, ctx):
            why = "The described group uses topics that the client is not authorized to describe."
            rows.append(replace(failed(group.group_id, TopicAuthorizationFailed()), error_message=why))
        elif request.include_authorized_operations and not group.error_code:
            rows.append(replace(group, authorized_operations=ctx.operations(ResourceType.GROUP, group.group_id)))
        else:
            rows.append(group)
    return StreamsGroupDescribeResponse(groups=rows)


def may_see_topics(group: DescribedGroup, ctx: Context) -> bool:
    """Whether the client may know every topic of a group's topology."""
    if ctx.session.guard is None or group.topology is None:
        return True
    names = names_in(group.topology.subtopologies or ())
    return all(ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


def failed(group_id: str, error: KafkaError) -> DescribedGroup:
    """A group that cannot be described here and now."""
    return DescribedGroup(
        error_code=error.code, group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0, members=[]
    )
