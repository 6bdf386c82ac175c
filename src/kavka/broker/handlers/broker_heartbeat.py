"""BrokerHeartbeat: v0-2.

Behaviour:  a broker says that it is there, how far it has read the metadata and what it wants; hears whether it is
            fenced and whether it may shut down. When the connection closes and the broker is not heard again at once,
            it is fenced without waiting for the end of its session.
Errors:     STALE_BROKER_EPOCH for another incarnation of the broker, or one that is not registered.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.broker_registration import watch
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.brokers import Heartbeat
from kavka.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(BrokerHeartbeatRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def broker_heartbeat(
    request: BrokerHeartbeatRequest, ctx: Context, controller: ControllerLoop
) -> BrokerHeartbeatResponse:
    """Hear from a broker."""
    broker_id, epoch = request.broker_id, request.broker_epoch
    beat = Heartbeat(
        broker_id=broker_id,
        broker_epoch=epoch,
        metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        offline=tuple(request.offline_log_dirs),
        cordoned=None if request.cordoned_log_dirs is None else tuple(request.cordoned_log_dirs),
        connection=ctx.connection_id,
    )
    reply = await controller.submit(lambda machine, now_ms: machine.heartbeat(beat, now_ms))
    watch(ctx, controller, broker_id, epoch)
    return BrokerHeartbeatResponse(
        error_code=0,
        is_caught_up=reply.caught_up,
        is_fenced=reply.fenced,
        should_shut_down=reply.should_shut_down,
    )
