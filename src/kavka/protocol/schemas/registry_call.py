"""RegistryCall (key 10000): a request to the schema registry, handed on to the node that decides; ours alone."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, message, request, response


@message
class QueryParameter:
    name: str
    value: str


@request(key=10000, versions="0", flexible="none")
class RegistryCallRequest:
    method: str
    path: str
    query: list[QueryParameter]
    body: bytes | None


@response(key=10000, versions="0", flexible="none")
class RegistryCallResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    status: Int16
    body: bytes
