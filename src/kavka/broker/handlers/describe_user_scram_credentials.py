"""DescribeUserScramCredentials: v0.

Behaviour:  which mechanisms users can log in with, and the iterations of each; no list, or an empty one, means all.
Errors:     one per user: 91 there is no credential, 92 the user is in the request twice.
"""

from __future__ import annotations

from collections import Counter

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.metadata.view import MetadataView
from kavka.model.errors import DuplicateResource, ResourceNotFound
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kavka.security.acl import Operation


@handler(DescribeUserScramCredentialsRequest, needs=on_cluster(Operation.DESCRIBE))
async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: Context, view: MetadataView
) -> DescribeUserScramCredentialsResponse:
    """Show who can log in how."""
    known: dict[str, list[CredentialInfo]] = {}
    for record in view.image.security.scram.values():
        info = CredentialInfo(mechanism=record.mechanism, iterations=record.iterations)
        known.setdefault(record.name, []).append(info)
    times = Counter(user.name for user in request.users) if request.users else Counter(known.keys())
    results, turn = [], Turn()
    for name, count in times.items():
        results.append(result(name, count, known.get(name)))
        await turn.breathe()
    return DescribeUserScramCredentialsResponse(error_code=0, error_message=None, results=results)


def result(name: str, times: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    """A user's row."""
    code, message = 0, None
    if times > 1:
        code = DuplicateResource.code
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif infos is None:
        code = ResourceNotFound.code
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=message, credential_infos=[] if code or infos is None else infos
    )
