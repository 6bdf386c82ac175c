"""ConsumerGroupHeartbeat: v0-1.

Behaviour:  answers once the group's records are committed, not when they are written. A member is told its
            assignment until it reports that it has it, lest an answer was lost.
Errors:     35 while group.version is off; else what the group says: 25, 42, 69, 81, 82, 110, 111, 112, 128.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.coordination import client_of, require_consumer_groups
from kavka.broker.handlers.marks import handler, on_group
from kavka.coordinator.consumer.kind import ConsumerKind
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType


@handler(ConsumerGroupHeartbeatRequest, needs=on_group(Operation.READ))
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: Context, groups: Groups, view: MetadataView, settings: LiveSettings
) -> ConsumerGroupHeartbeatResponse:
    """Join, stay in or leave a consumer group."""
    require_consumer_groups(view.image, settings.values)
    for name in request.subscribed_topic_names or ():
        ctx.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if request.subscribed_topic_regex:
        await groups.prepare_pattern(request.subscribed_topic_regex)
    client = client_of(ctx)
    return await groups.ask(
        ConsumerKind,
        request.group_id,
        lambda kind, now_ms: kind.consumer_group_heartbeat(request, client, now_ms),
    )
