"""AlterUserScramCredentials: v0.

Behaviour:  sets and removes credentials, of each user at most one in a request.
Errors:     one per user: 33 no such mechanism, 91 nothing to remove, 92 twice in the request, 93 a credential that
            breaks a rule.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.scram import Deletion, Upsertion
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(AlterUserScramCredentialsRequest, needs=on_cluster(Operation.ALTER))
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: Context, controller: ControllerLoop
) -> AlterUserScramCredentialsResponse:
    """Change what users can log in with."""
    deletions = [Deletion(one.name, one.mechanism) for one in request.deletions]
    upsertions = [
        Upsertion(one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
        for one in request.upsertions
    ]
    outcomes = await controller.submit(lambda machine, _: machine.alter_scram_credentials(deletions, upsertions))
    results = [
        AlterUserScramCredentialsResult(
            user=name, error_code=error.code if error else 0, error_message=str(error) if error else None
        )
        for name, error in outcomes.items()
    ]
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)
