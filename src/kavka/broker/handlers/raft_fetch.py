"""Fetch on a controller listener: v4-18.

Behaviour:  another replica of the metadata log asks for what follows its end, committed or not; the question waits
            until there is something. The answer may be to truncate (diverging epoch), or to fetch a snapshot instead.
            The fetch offset tells the leader how far the replica is, for the high watermark.
Errors:     for the whole request 104 foreign cluster, 42 another partition than the metadata log's; for the partition 6
            not the leader, 74 and 76 another epoch, 42 senseless, -1 a stranger with this node's id.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.fetch import FetchRequest, FetchResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import read_fetch, write_fetch_reply
from kavka.security.acl import Operation


@handler(FetchRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def raft_fetch(request: FetchRequest, ctx: Context, controller: ControllerLoop) -> FetchResponse:
    """Give a replica of the metadata log what it lacks."""
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
        message = read_fetch(request, ctx.api_version)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    reply = await controller.quorum.ask(message, request.max_bytes)
    return write_fetch_reply(reply, ctx.listener, ctx.api_version)
