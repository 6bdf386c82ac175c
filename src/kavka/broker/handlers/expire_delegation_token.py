"""ExpireDelegationToken: v1-2.

Behaviour:  expires a token after a period, at once where that is negative; the answer is when.
Errors:     64 on a connection that proves nothing or was logged in to by a token, 62 no token has this secret, 63 it is
            another's, 66 it is expired already, 61 no key for tokens is configured, 35 the cluster is too old for
            them.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.token_requests import UNKNOWN_MS, require_proof
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kavka.quorum.controller_loop import ControllerLoop


@handler(ExpireDelegationTokenRequest, needs=PER_ITEM)
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, ctx: Context, controller: ControllerLoop, forwarding: Forwarding
) -> ExpireDelegationTokenResponse:
    """End a token."""
    try:
        require_proof(ctx)
    except KafkaError as error:
        return told(error.code, UNKNOWN_MS)

    async def expire(request: ExpireDelegationTokenRequest, ctx: Context) -> ExpireDelegationTokenResponse:
        secret, period_ms = bytes(request.hmac), request.expiry_time_period_ms
        try:
            until_ms = await controller.submit(
                lambda machine, now_ms: machine.expire_token(ctx.principal, secret, period_ms, now_ms)
            )
        except KafkaError as error:
            return told(error.code, 0)
        return told(0, until_ms)

    answer: ExpireDelegationTokenResponse = await forwarding.ask(expire, request, ctx)
    return answer


def told(error_code: int, until_ms: int) -> ExpireDelegationTokenResponse:
    """Until when the token is good."""
    return ExpireDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=until_ms)
