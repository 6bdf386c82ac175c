"""DescribeDelegationToken: v1-3.

Behaviour:  tokens with their secrets, of some owners or (null) of all: to each client those that it owns or may renew,
            and those for which it has Describe on the token or DescribeTokens on the owner.
Errors:     64 on a connection that proves nothing or was logged in to by a token, 61 no key for tokens is configured.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.token_requests import parts, require_proof
from kavka.metadata.live import LiveSettings
from kavka.metadata.records.security import DelegationTokenRecord
from kavka.metadata.view import MetadataView
from kavka.model.errors import DelegationTokenAuthDisabled
from kavka.protocol.schemas.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kavka.security.acl import Operation, ResourceType
from kavka.security.token import TokenSecrets


@handler(DescribeDelegationTokenRequest, needs=PER_ITEM)
async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, ctx: Context, view: MetadataView, settings: LiveSettings
) -> DescribeDelegationTokenResponse:
    """Show tokens."""
    require_proof(ctx)
    secrets = TokenSecrets.of(settings.static)
    if secrets is None:
        raise DelegationTokenAuthDisabled
    wanted = None
    if request.owners is not None:
        wanted = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    tokens = [
        described(record, secrets, ctx)
        for record in view.image.security.tokens.values()
        if (wanted is None or not wanted.isdisjoint(holders(record))) and shown(record, ctx)
    ]
    return DescribeDelegationTokenResponse(error_code=0, tokens=tokens)


def holders(record: DelegationTokenRecord) -> set[str]:
    """Who owns a token or may renew it."""
    return {record.owner, *record.renewers}


def shown(record: DelegationTokenRecord, ctx: Context) -> bool:
    """Whether a client may see a token."""
    return (
        ctx.principal in holders(record)
        or ctx.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, record.token_id)
        or ctx.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, record.owner)
    )


def described(record: DelegationTokenRecord, secrets: TokenSecrets, ctx: Context) -> DescribedDelegationToken:
    """A token as clients are told of it."""
    (owner_type, owner_name), (type_, name) = parts(record.owner), parts(record.requester)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=type_ if ctx.api_version > 2 else "",
        token_requester_principal_name=name if ctx.api_version > 2 else "",
        issue_timestamp=record.issue_timestamp,
        expiry_timestamp=record.expiration_timestamp,
        max_timestamp=record.max_timestamp,
        token_id=record.token_id,
        hmac=secrets.make(record.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=who)
            for kind, who in map(parts, record.renewers)
        ],
    )
