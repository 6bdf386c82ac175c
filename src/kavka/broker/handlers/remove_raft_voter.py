"""RemoveRaftVoter: v0.

Behaviour:  a voter loses its vote; answered when that is committed. A leader that removes itself stays the leader until
            then.
Errors:     104 foreign cluster, 6 not the leader, 42 no proper voter, 127 no such voter, or the only one, 35 at
            kraft.version 0, 7 busy with another change.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import read_remove
from kavka.security.acl import Operation


@handler(RemoveRaftVoterRequest, needs=on_cluster(Operation.ALTER))
async def remove_raft_voter(
    request: RemoveRaftVoterRequest, ctx: Context, controller: ControllerLoop
) -> RemoveRaftVoterResponse:
    """Take a voter's vote away."""
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=str(error))
    reply = await controller.quorum.ask(read_remove(request))
    return RemoveRaftVoterResponse(error_code=reply.error, error_message=reply.message or None if reply.error else None)
