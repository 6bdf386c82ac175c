"""SaslAuthenticate (key 36): exchange SASL tokens."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int64, request, response, since


@request(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes


@response(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: Int16
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: Annotated[Int64, since(1), IGNORABLE] = 0
