"""BeginQuorumEpoch: v0-1.

Behaviour:  the leader of a new epoch announces itself; this node follows it.
Errors:     for the whole request 104 foreign cluster, 42 another partition than the metadata log's; for the partition
            74 an old epoch, 125 meant for another replica than this one, 42 a second leader of the epoch.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import read_begin, write_begin_reply
from kavka.security.acl import Operation


@handler(BeginQuorumEpochRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def begin_quorum_epoch(
    request: BeginQuorumEpochRequest, ctx: Context, controller: ControllerLoop
) -> BeginQuorumEpochResponse:
    """Follow a new leader."""
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
        message = read_begin(request)
    except KafkaError as error:
        return BeginQuorumEpochResponse(error_code=error.code, topics=[])
    reply = await controller.quorum.ask(message)
    return write_begin_reply(reply, ctx.listener, ctx.api_version)
