"""RenewDelegationToken: v1-2.

Behaviour:  renews a token, by its owner or a renewer; the answer is when it expires.
Errors:     64 on a connection that proves nothing or was logged in to by a token, 62 no token has this secret, 63 it is
            another's, 66 it is expired, 61 no key for tokens is configured, 35 the cluster is too old for them.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.token_requests import UNKNOWN_MS, require_proof
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kavka.quorum.controller_loop import ControllerLoop


@handler(RenewDelegationTokenRequest, needs=PER_ITEM)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, ctx: Context, controller: ControllerLoop, forwarding: Forwarding
) -> RenewDelegationTokenResponse:
    """Renew a delegation token."""
    try:
        require_proof(ctx)
    except KafkaError as error:
        return told(error.code, UNKNOWN_MS)

    async def renew(request: RenewDelegationTokenRequest, ctx: Context) -> RenewDelegationTokenResponse:
        secret = bytes(request.hmac)
        try:
            until_ms = await controller.submit(
                lambda machine, now_ms: machine.renew_token(ctx.principal, secret, request.renew_period_ms, now_ms)
            )
        except KafkaError as error:
            return told(error.code, 0)
        return told(0, until_ms)

    answer: RenewDelegationTokenResponse = await forwarding.ask(renew, request, ctx)
    return answer


def told(error_code: int, until_ms: int) -> RenewDelegationTokenResponse:
    """Until when the token is good."""
    return RenewDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=until_ms)
