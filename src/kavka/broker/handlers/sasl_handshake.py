"""SaslHandshake: v0-1.

Behaviour:  never succeeds here: who logs in, or logs in again while that is possible, is served before the dispatcher.
Errors:     ILLEGAL_SASL_STATE where no log-in is asked for, or none is possible any more.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.model.errors import IllegalSaslState
from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handler(SaslHandshakeRequest, needs=NOTHING)
async def sasl_handshake(request: SaslHandshakeRequest, ctx: Context) -> SaslHandshakeResponse:
    """Say that this is not the time for it."""
    return SaslHandshakeResponse(error_code=IllegalSaslState.code, mechanisms=[])
