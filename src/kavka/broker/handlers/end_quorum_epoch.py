"""EndQuorumEpoch: v0-1.

Behaviour:  the leader of an epoch resigns; this node stands for election, at once if it is the first of the successors.
Errors:     for the whole request 104 foreign cluster, 42 another partition than the metadata log's; for the partition
            74 an old epoch, 42 not the leader of this one.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import read_end, write_end_reply
from kavka.security.acl import Operation


@handler(EndQuorumEpochRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def end_quorum_epoch(
    request: EndQuorumEpochRequest, ctx: Context, controller: ControllerLoop
) -> EndQuorumEpochResponse:
    """Take note that a leader resigns."""
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
        message = read_end(request)
    except KafkaError as error:
        return EndQuorumEpochResponse(error_code=error.code, topics=[])
    reply = await controller.quorum.ask(message)
    return write_end_reply(reply, ctx.listener, ctx.api_version)
