"""Envelope (key 58): carry a client's request from a broker to the controller."""

from __future__ import annotations

from kavka.protocol.schema import Int16, request, response


@request(key=58, versions="0", flexible="0+")
class EnvelopeRequest:
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes


@response(key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    response_data: bytes | None = None
    error_code: Int16
