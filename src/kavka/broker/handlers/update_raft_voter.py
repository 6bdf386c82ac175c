"""UpdateRaftVoter: v0.

Behaviour:  a voter tells the leader where it listens and which kraft.versions it knows.
Errors:     104 foreign cluster, 6 not the leader, 74 and 76 another epoch, 42 no proper voter, versions, or endpoint of
            the controller listener, 127 no such voter, 7 busy with another change.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import InvalidRequest, KafkaError
from kavka.protocol.schemas.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import endpoint_of, read_update, write_update_reply
from kavka.security.acl import Operation


@handler(UpdateRaftVoterRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def update_raft_voter(
    request: UpdateRaftVoterRequest, ctx: Context, controller: ControllerLoop
) -> UpdateRaftVoterResponse:
    """Take over how a voter describes itself."""
    quorum = controller.quorum
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
        message = read_update(request)
        listener = quorum.settings.listener
        if quorum.leads(message.epoch) and endpoint_of(message.voter.endpoints, listener) is None:
            raise InvalidRequest(f"the voter has no endpoint for listener {listener}")
    except KafkaError as error:
        return write_update_reply(quorum.change_refused(error), ctx.listener)
    return write_update_reply(await quorum.ask(message), ctx.listener)
