"""CreateDelegationToken: v1-3.

Behaviour:  a token for the client itself or, from v3, for another user (KIP-373); the broker looks at the connection
            and at the rights, and the controller hands the token out.
Errors:     64 on a connection that proves nothing or was logged in to by a token, 65 no right to create tokens for the
            owner, 67 a renewer that is no user, 61 no key for tokens is configured, 35 the cluster is too old for them.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.token_requests import UNKNOWN_MS, USER, parts, require_proof
from kavka.model.errors import InvalidPrincipalType, KafkaError
from kavka.protocol.schema import replace
from kavka.protocol.schemas.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation, ResourceType


@handler(CreateDelegationTokenRequest, needs=PER_ITEM)
async def create_delegation_token(
    request: CreateDelegationTokenRequest, ctx: Context, controller: ControllerLoop, forwarding: Forwarding
) -> CreateDelegationTokenResponse:
    """Hand out a token."""
    owner = ctx.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    try:
        require_proof(ctx)
        if owner != ctx.principal:
            ctx.require(Operation.CREATE_TOKENS, ResourceType.USER, owner)
        if any(renewer.principal_type != USER for renewer in request.renewers):
            raise InvalidPrincipalType("only users renew tokens")
    except KafkaError as error:
        return answer(owner, ctx, error, UNKNOWN_MS)

    async def create(request: CreateDelegationTokenRequest, ctx: Context) -> CreateDelegationTokenResponse:
        renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers]
        try:
            token = await controller.submit(
                lambda machine, now_ms: machine.create_token(
                    ctx.principal, owner, renewers, request.max_lifetime_ms, now_ms
                )
            )
        except KafkaError as error:
            return answer(owner, ctx, error)
        return replace(
            answer(owner, ctx),
            issue_timestamp_ms=token.record.issue_timestamp,
            expiry_timestamp_ms=token.record.expiration_timestamp,
            max_timestamp_ms=token.record.max_timestamp,
            token_id=token.record.token_id,
            hmac=token.hmac,
        )

    handed_out: CreateDelegationTokenResponse = await forwarding.ask(create, request, ctx)
    return handed_out


def answer(
    owner: str, ctx: Context, error: KafkaError | None = None, time_ms: int = 0
) -> CreateDelegationTokenResponse:
    """For whom a token is, or would have been."""
    (owner_type, owner_name), (type_, name) = parts(owner), parts(ctx.principal)
    return CreateDelegationTokenResponse(
        error_code=0 if error is None else error.code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=type_ if ctx.api_version > 2 else "",
        token_requester_principal_name=name if ctx.api_version > 2 else "",
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        token_id="",
        hmac=b"",
    )
