"""ShareGroupHeartbeat: v1.

Behaviour:  answers once the group's records are committed. The states of partitions that are new to the group are
            initialized after that, and the partitions are assigned by a later heartbeat.
Errors:     35 while share.version is off, 30, 42, 29 a topic that may not be described; else what the group says:
            25, 69, 81, 110.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.coordination import client_of
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.share_requests import without_words
from kavka.broker.sharing import share_version
from kavka.coordinator.share.kind import ShareKind
from kavka.metadata.view import MetadataView
from kavka.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType
from kavka.share.checks import check_group, check_member


@handler(ShareGroupHeartbeatRequest, needs=PER_ITEM)
async def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, ctx: Context, groups: Groups, view: MetadataView
) -> ShareGroupHeartbeatResponse:
    """Join, stay in or leave a share group."""
    with without_words():
        check_group(share_version(view.image), request.group_id)
        ctx.require(Operation.READ, ResourceType.GROUP, request.group_id)
        check_member(request.member_id)
    for name in request.subscribed_topic_names or ():
        ctx.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
    client = client_of(ctx)
    return await groups.ask(
        ShareKind, request.group_id, lambda kind, now_ms: kind.share_group_heartbeat(request, client, now_ms)
    )
