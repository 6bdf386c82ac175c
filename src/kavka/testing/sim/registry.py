"""The schema registry's clients: the shipped HTTP connection on the simulated network, and who asks over it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import h11

from kavka.broker.registry_calls import RegistryCalls
from kavka.client.dial import Transport as Connection
from kavka.net.http import HttpConnection, HttpRequest, HttpResponse, HttpServing
from kavka.net.server import Served
from kavka.net.session import Session
from kavka.net.transport import Transport

REGISTRY_PORT: Final = 8081
MAX_BODY_BYTES: Final = 1 << 20
CHUNK_BYTES: Final = 64 * 1024

Connect = Callable[[int, asyncio.BufferedProtocol], Awaitable[Connection]]
"""Connects to a port of a node."""


class SimRegistryFace:
    """What a node serves of its registry: everybody is let in."""

    def __init__(self, calls: RegistryCalls) -> None:
        self._calls = calls
        self._serving = HttpServing(self, MAX_BODY_BYTES)

    def connect(self, session: Session, transport: Transport, on_close: Callable[[Served], None]) -> HttpConnection:
        """Take a new connection over."""
        return self._serving.connect(session, transport, on_close)

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._serving.run()

    async def let_in(self, connection: HttpConnection, headers: Mapping[str, str]) -> HttpResponse | None:
        """Nobody is refused."""
        return None

    async def respond(self, connection: HttpConnection, request: HttpRequest) -> HttpResponse:
        """The answer to a request."""
        status, body = await self._calls.answer(
            connection.session, request.method, request.path, request.query, request.body
        )
        return HttpResponse(status, json.dumps(body).encode(), "application/json")


class Answer(NamedTuple):
    """What the registry said."""

    status: int
    body: Any


class _Receiver(asyncio.BufferedProtocol):
    """Reads one response."""

    def __init__(self) -> None:
        self.http = h11.Connection(h11.CLIENT)
        self.answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(CHUNK_BYTES)
        self._status = 0
        self._body = b""

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.http.receive_data(bytes(self._buffer[:nbytes]))
        while not self.answer.done():
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                return
            if isinstance(event, h11.Response):
                self._status = event.status_code
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self.answer.set_result(Answer(self._status, json.loads(self._body)))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result(None)


async def ask(connect: Connect, method: str, path: str, body: Any = None) -> Answer | None:
    """Ask a registry over a connection of its own; None if it does not answer. Raises NetworkException."""
    receiver = _Receiver()
    transport = await connect(REGISTRY_PORT, receiver)
    data = b"" if body is None else json.dumps(body).encode()
    headers = [("Host", "registry"), ("Content-Length", str(len(data))), ("Connection", "close")]
    http = receiver.http
    try:
        transport.write(http.send(h11.Request(method=method, target=path, headers=headers)) or b"")
        transport.write((http.send(h11.Data(data=data)) or b"") + (http.send(h11.EndOfMessage()) or b""))
        return await receiver.answer
    finally:
        transport.abort()
