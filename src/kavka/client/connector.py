"""Dialling a node and logging in to it: the one place that knows how connections to it are secured.

There is one connector per security context: what a client was configured with, the inter-broker listener, the
controller listener.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kavka import __version__
from kavka.client.deadline import within
from kavka.client.dial import Dial, TcpDial
from kavka.model.errors import NetworkException, UnsupportedVersion, error_for
from kavka.protocol.registry import ApiKey, api

if TYPE_CHECKING:
    from kavka.client.connection import Connection
    from kavka.client.security import Security
    from kavka.protocol.schemas.api_versions import ApiVersionsResponse

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
"""The largest answer taken: Kafka's own fetch limit is 50 MiB, but a first batch may be larger than asked for."""

RENEWED_AFTER: Final = 0.85
"""The part of a session after which a client logs in again: up to a tenth of the session later, by chance."""


class Connector:
    """Opens connections that are ready for requests."""

    def __init__(
        self,
        dial: Dial | None = None,
        draw: Callable[[], float] = random.random,
        security: Security | None = None,
    ) -> None:
        """`draw` is the chance, from 0 to 1, by which those who back off do not march in step."""
        self.draw = draw
        self._dial = dial if dial is not None else TcpDial()
        self._security = security

    async def connect(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "kavka",
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> Connection:
        """Dial a node, whose name is resolved now, and log in.

        Raises NetworkException if it cannot be reached, and the error that it answers with if it refuses.
        """
        from kavka.client.connection import Connection  # a node that is alone never needs it

        connection = Connection(f"{host}:{port}", client_id, request_timeout_ms, max_frame_bytes)
        try:
            async with within(connect_timeout_ms / 1000):
                await self._open(connection, host, port)
                await self._log_in(connection)
                await self._authenticate(connection, host)
            if connection.closed:
                raise NetworkException(f"{host}:{port} closed the connection")
        except TimeoutError:
            connection.close()
            raise NetworkException(f"{host}:{port} did not answer within {connect_timeout_ms} ms") from None
        except BaseException:
            connection.close()
            raise
        return connection

    async def _open(self, connection: Connection, host: str, port: int) -> None:
        if self._security is None or self._security.context is None:
            connection.transport = await self._dial.dial(host, port, connection.receiver)
            return
        from kavka.client.tls import TlsReceiver

        tls = TlsReceiver(self._security.context(), host, connection.address, connection.receiver)
        connection.transport = tls
        await tls.open(await self._dial.dial(host, port, tls))

    async def _log_in(self, connection: Connection) -> None:
        """Learn which versions the node offers."""
        newest = api(ApiKey.API_VERSIONS).max_version
        answer = await self._ask_versions(connection, newest)
        if answer.error_code == UnsupportedVersion.code:
            # The refusal is written at version 0 and says what the broker does understand, if it is not too old.
            offered = {row.api_key: row.max_version for row in answer.api_keys}
            answer = await self._ask_versions(connection, min(newest, offered.get(ApiKey.API_VERSIONS, 0)))
        if answer.error_code:
            raise error_for(answer.error_code, f"{connection.address} refused ApiVersions")
        connection.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        connection.features = {row.name: row.max_version_level for row in answer.finalized_features}

    async def _ask_versions(self, connection: Connection, version: int) -> ApiVersionsResponse:
        from kavka.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse

        request = ApiVersionsRequest(client_software_name="kavka", client_software_version=__version__)
        return await connection.request(request, ApiVersionsResponse, version=version)

    async def renew(self, connection: Connection) -> None:
        """Log in again on an open connection (KIP-368), while other requests wait; raises KafkaError."""
        host = connection.address.rpartition(":")[0]
        connection.hold()
        try:
            await self._authenticate(connection, host)
        finally:
            connection.release()

    async def _authenticate(self, connection: Connection, host: str) -> None:
        """Prove who this is, if the connection is secured that way."""
        if self._security is None or self._security.begin is None:
            return
        from kavka.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
        from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

        loop, mechanism = asyncio.get_running_loop(), self._security.mechanism
        exchange = await self._security.begin(host)
        handshake = SaslHandshakeRequest(mechanism=mechanism)
        chosen = await connection.send(handshake, SaslHandshakeResponse, urgent=True)
        if chosen.error_code:
            offered = ", ".join(chosen.mechanisms) or "nothing"
            raise error_for(chosen.error_code, f"{connection.address} does not take {mechanism}: it offers {offered}")
        token: bytes | None = exchange.begin()
        lifetime_ms = 0
        while token is not None:
            request = SaslAuthenticateRequest(auth_bytes=token)
            answer = await connection.send(request, SaslAuthenticateResponse, urgent=True)
            if answer.error_code:
                words = answer.error_message or "Authentication failed"
                raise error_for(answer.error_code, f"{connection.address}: {words}")
            lifetime_ms = answer.session_lifetime_ms
            # in a thread: SCRAM has a client calculate for many milliseconds
            token = await loop.run_in_executor(None, exchange.respond, answer.auth_bytes)
        if lifetime_ms > 0:
            lasting = RENEWED_AFTER + (1 - RENEWED_AFTER) * self.draw() * 2 / 3
            connection.renew_at = loop.time() + lifetime_ms / 1000 * lasting
        else:
            connection.renew_at = None
