"""Vote: v0-2.

Behaviour:  a candidate for the quorum's leadership asks for this node's vote, or whether it would get it (pre-vote).
            What is granted is on the disk before it is answered.
Errors:     for the whole request 104 foreign cluster, 42 another partition than the metadata log's; for the partition
            74 an old epoch, 125 meant for another replica than this one, 42 senseless.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.vote import VoteRequest, VoteResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import read_vote, write_vote_reply
from kavka.security.acl import Operation


@handler(VoteRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def vote(request: VoteRequest, ctx: Context, controller: ControllerLoop) -> VoteResponse:
    """Vote, or refuse to."""
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
        message = read_vote(request)
    except KafkaError as error:
        return VoteResponse(error_code=error.code, topics=[])
    reply = await controller.quorum.ask(message)
    return write_vote_reply(reply, ctx.listener, ctx.api_version)
