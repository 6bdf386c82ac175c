"""SaslHandshake (key 17): choose a SASL mechanism."""

from __future__ import annotations

from kavka.protocol.schema import Int16, request, response


@request(key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    mechanism: str


@response(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    error_code: Int16
    mechanisms: list[str]
