"""AlterUserScramCredentials: v0.

Behaviour:  sets and removes credentials, of each user at most one in a request.
Errors:     one per user: 33 no such mechanism, 91 nothing to remove, 92 twice in the request, 93 a credential that
            breaks a rule.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.machine import Controller
from kavka.controller.scram import Deletion, Upsertion
from kavka.model.errors import KafkaError
from kavka.model.transition import Transition
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation

PART_USERS: Final = 200
"""How many users are decided on at a time."""

Change = Deletion | Upsertion


@handler(AlterUserScramCredentialsRequest, needs=on_cluster(Operation.ALTER))
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: Context, controller: ControllerLoop
) -> AlterUserScramCredentialsResponse:
    """Change what users can log in with."""
    turn = Turn()
    users = iter((await by_user(request, turn)).values())
    results: list[AlterUserScramCredentialsResult] = []
    part = list(islice(users, PART_USERS))
    while True:  # nothing at all is asked of the controller too
        outcomes = await controller.submit(partial(alter_part, part))
        results += (
            AlterUserScramCredentialsResult(
                user=name, error_code=error.code if error else 0, error_message=str(error) if error else None
            )
            for name, error in outcomes.items()
        )
        part = list(islice(users, PART_USERS))
        await turn.breathe()
        if not part:
            return AlterUserScramCredentialsResponse(results=results)


async def by_user(request: AlterUserScramCredentialsRequest, turn: Turn) -> dict[str, list[Change]]:
    """What is asked for by user, of each at most two changes: already the second is refused."""
    found: dict[str, list[Change]] = {}
    for deletion in request.deletions:
        same = found.setdefault(deletion.name, [])
        if len(same) < 2:
            same.append(Deletion(deletion.name, deletion.mechanism))
        await turn.breathe()
    for wanted in request.upsertions:
        same = found.setdefault(wanted.name, [])
        if len(same) < 2:
            salt, salted_password = bytes(wanted.salt), bytes(wanted.salted_password)
            same.append(Upsertion(wanted.name, wanted.mechanism, wanted.iterations, salt, salted_password))
        await turn.breathe()
    return found


def alter_part(users: list[list[Change]], machine: Controller, now_ms: int) -> Transition[dict[str, KafkaError | None]]:
    """Change the credentials of some of the users."""
    changes = [change for user in users for change in user]
    return machine.alter_scram_credentials(
        [change for change in changes if isinstance(change, Deletion)],
        [change for change in changes if isinstance(change, Upsertion)],
    )
