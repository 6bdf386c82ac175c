"""Envelope: v0.

Behaviour:  a broker forwards a client's request to the controller, with who asked from where; it is served as if the
            client had asked here. Only on controller listeners.
Errors:     42 for a bad address or an API that is never forwarded, 97 for a principal that cannot be read, 35 for a
            request that cannot be read, 41 when this node is not the active controller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from kavka.broker.context import Context
from kavka.broker.forwarding import FORWARDABLE, unpack_host, unpack_principal
from kavka.broker.gate import Gate
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import InvalidRequest, KafkaError, NotController, UnsupportedVersion
from kavka.pacing.turn import paced
from kavka.protocol.compiler import decode_steps
from kavka.protocol.header import RequestHeader, encode_response_steps, parse_request_header
from kavka.protocol.registry import API
from kavka.protocol.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from kavka.quorum.channel import refuses
from kavka.security.acl import Operation


@runtime_checkable
class Served(Protocol):
    """The other handlers of the listener."""

    async def serve(self, request: Any, context: Context) -> Any:
        """Serve a request that came by another way than its own frame."""


@handler(EnvelopeRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def envelope(request: EnvelopeRequest, ctx: Context, handlers: Served, gate: Gate) -> EnvelopeResponse:
    """Serve the request in an envelope."""
    principal, by_token = unpack_principal(request.request_principal)
    host = unpack_host(request.client_host_address)
    header, body = await unpack_request(request.request_data)
    session = replace(
        ctx.session,
        client_host=host,
        principal=principal,
        guard=gate.guard(principal, host),
        token_authenticated=by_token,
    )
    client = replace(
        ctx,
        api_key=header.api_key,
        api_version=header.api_version,
        client_id=header.client_id,
        session=session,
        forwarded=True,
    )
    answer = await handlers.serve(body, client)
    if await refuses(answer, NotController.code):
        raise NotController("this node is not the active controller")
    pieces = await paced(encode_response_steps(header.api_key, header.api_version, header.correlation_id, answer))
    framed = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    return EnvelopeResponse(response_data=framed[4:], error_code=0)


async def unpack_request(data: bytes) -> tuple[RequestHeader, Any]:
    """The request inside; raises UnsupportedVersion where it cannot be read, as Kafka does."""
    try:
        header, pos = parse_request_header(data)
    except KafkaError as error:
        raise UnsupportedVersion(f"the request in the envelope has no header: {error}") from None
    if header.api_key not in FORWARDABLE:
        raise InvalidRequest(f"{API[header.api_key].name} is not sent on in envelopes")
    api = API[header.api_key]
    if not api.min_version <= header.api_version <= api.latest_stable_version:
        raise UnsupportedVersion(f"{api.name} has no version {header.api_version}")
    try:
        return header, await paced(decode_steps(api.request(), data, header.api_version, pos))
    except KafkaError as error:
        raise UnsupportedVersion(f"the {api.name} in the envelope cannot be read: {error}") from None
