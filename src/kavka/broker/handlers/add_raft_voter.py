"""AddRaftVoter: v0-1.

Behaviour:  a controller that has caught up with the metadata log gets a vote; answered when that is committed, or from
            v1 on, if the request says so, when it is written. One change of the voters at a time (KIP-853).
Errors:     104 foreign cluster, 6 not the leader, 42 no proper voter or no endpoint of the controller listener, 126 a
            voter with this id is there, 35 kraft.version 0, 7 busy with another change or the node lags behind.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import InvalidRequest, KafkaError
from kavka.protocol.schemas.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import endpoint_of, read_add
from kavka.security.acl import Operation


@handler(AddRaftVoterRequest, needs=on_cluster(Operation.ALTER))
async def add_raft_voter(
    request: AddRaftVoterRequest, ctx: Context, controller: ControllerLoop
) -> AddRaftVoterResponse:
    """Give a controller a vote."""
    quorum = controller.quorum
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
        message = read_add(request)
        listener = quorum.settings.listener
        if quorum.is_leader and endpoint_of(message.voter.endpoints, listener) is None:
            raise InvalidRequest(f"the voter has no endpoint for listener {listener}")
    except KafkaError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=str(error))
    reply = await quorum.ask(message)
    return AddRaftVoterResponse(error_code=reply.error, error_message=reply.message or None if reply.error else None)
