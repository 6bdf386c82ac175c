"""SaslAuthenticate: v0-2.

Behaviour:  never succeeds here: who logs in is served before the dispatcher.
Errors:     ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.model.errors import IllegalSaslState
from kavka.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

WORDS = "SaslAuthenticate request received after successful authentication"


@handler(SaslAuthenticateRequest, needs=NOTHING)
async def sasl_authenticate(request: SaslAuthenticateRequest, ctx: Context) -> SaslAuthenticateResponse:
    """Say that this is not the time for it."""
    return SaslAuthenticateResponse(error_code=IllegalSaslState.code, error_message=WORDS, auth_bytes=b"")
