"""Requests that only the active controller can serve: a broker sends them on in an envelope (KIP-590)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.context import BROKER, Context
from kavka.client.line import AUTHENTICATION
from kavka.model.errors import (
    InvalidRequest,
    KafkaError,
    NotController,
    PrincipalDeserializationFailure,
    RequestTimedOut,
    UnknownServerError,
    UnsupportedVersion,
)
from kavka.pacing.turn import paced
from kavka.protocol.compiler import decode, decode_steps, encode
from kavka.protocol.header import encode_request_steps, parse_response_header
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schema import declared
from kavka.quorum.channel import ActiveController, ControllerChannel, refuses

if TYPE_CHECKING:
    from kavka.protocol.schemas.envelope import EnvelopeResponse

Handler = Callable[[Any, Context], Coroutine[Any, Any, Any]]
Told = Callable[[Any, Context], None]
"""Is given what the controller answers to a client."""

SENT_ON: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""The APIs that a broker forwards just as they came."""
FORWARDABLE: Final = SENT_ON | {
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}
"""What may be in an envelope: also what a broker first checks by what only it knows, settings and connections."""

PRINCIPAL_VERSION: Final = 0


class Forwarding:
    """Sends clients' requests on to the active controller; on a node that is always it, nothing is sent."""

    def __init__(
        self,
        quorum: ActiveController | None = None,
        channel: ControllerChannel | None = None,
        told: Told | None = None,
    ) -> None:
        self._quorum = quorum
        self._channel = channel
        self._told = told

    def elsewhere(self, ctx: Context) -> bool:
        """Whether a request that came to a broker has to be served by another node."""
        return ctx.kind == BROKER and self._quorum is not None and not self._quorum.is_active

    def wrap(self, key: int, handler: Handler) -> Handler:
        """The handler of an API, for a broker's listener: where need be it asks the controller instead."""
        if self._channel is None or key not in SENT_ON:
            return handler

        async def forwarded(request: Any, ctx: Context) -> Any:
            return await self.ask(handler, request, ctx)

        return forwarded

    async def ask(self, handler: Handler, request: Any, ctx: Context) -> Any:
        """What the active controller answers, by a handler where that is this node."""
        if self._channel is None or ctx.kind != BROKER:
            return await handler(request, ctx)
        if not self.elsewhere(ctx):
            try:
                answer = await handler(request, ctx)
                if not await refuses(answer, NotController.code):
                    return answer
            except NotController:
                pass  # it does not lead any more: ask who does
        try:
            return await self.send(request, ctx)
        except RequestTimedOut:
            # the handler knows where in its response an error belongs, and that this node is no controller
            return await handler(request, ctx)

    async def send(self, request: Any, ctx: Context) -> Any:
        """What the controller answers to a client's request; raises KafkaError."""
        if self._channel is None:
            raise NotController("this node knows no other controller")
        from kavka.protocol.schemas.envelope import EnvelopeRequest

        api = API[declared(type(request)).key]
        framed = await paced(encode_request_steps(ctx.api_version, 0, ctx.client_id, request))
        sealed = EnvelopeRequest(
            request_data=framed[4:],
            request_principal=pack_principal(ctx.principal, token_authenticated=ctx.session.token_authenticated),
            client_host_address=pack_host(ctx.client_host),
        )
        try:
            answer: EnvelopeResponse = await self._channel.call(sealed)
        except AUTHENTICATION as error:
            # these are this node's own credentials: the client's were good enough
            raise UnknownServerError(f"the controller does not let this node in: {error}") from error
        if answer.error_code == UnsupportedVersion.code:
            raise UnsupportedVersion(f"the controller knows no {api.name} of version {ctx.api_version}")
        if answer.error_code or answer.response_data is None:
            # the fault is the cluster's, not the client's
            raise UnknownServerError(f"the controller refused an envelope with error {answer.error_code}")
        data = answer.response_data
        _, pos = parse_response_header(api, ctx.api_version, data)
        response = await paced(decode_steps(api.response(), data, ctx.api_version, pos))
        if self._told is not None:
            self._told(response, ctx)
        return response


def pack_principal(principal: str, *, token_authenticated: bool = False) -> bytes:
    """A principal in the form of Kafka's default principals."""
    from kavka.protocol.schemas.default_principal_data import DefaultPrincipalData

    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=token_authenticated)
    return PRINCIPAL_VERSION.to_bytes(2, "big") + encode(data, PRINCIPAL_VERSION)


def unpack_principal(data: bytes | None) -> tuple[str, bool]:
    """The principal in an envelope and whether it logged in by a token; raises PrincipalDeserializationFailure."""
    from kavka.protocol.schemas.default_principal_data import DefaultPrincipalData

    version = int.from_bytes((data or b"")[:2], "big", signed=True)
    if data is None or len(data) < 2 or version != PRINCIPAL_VERSION:
        raise PrincipalDeserializationFailure("the principal in the envelope has no known form")
    try:
        found = decode(DefaultPrincipalData, data, version, 2)
    except KafkaError as error:
        raise PrincipalDeserializationFailure(f"the principal in the envelope cannot be read: {error}") from None
    return f"{found.type}:{found.name}", found.token_authenticated


def pack_host(host: str) -> bytes:
    """An address in bytes; that of nobody where it is none."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
    return bytes(4)


def unpack_host(data: bytes) -> str:
    """The address of a client in an envelope; raises InvalidRequest."""
    families = {4: socket.AF_INET, 16: socket.AF_INET6}
    if len(data) not in families:
        raise InvalidRequest(f"an address has 4 or 16 bytes, not {len(data)}")
    return socket.inet_ntop(families[len(data)], data)
