"""Connections to the other nodes of the quorum: one per address, its name resolved at each dial."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from kavka.client.connection import Connection, connect
from kavka.client.dial import Dial
from kavka.model.errors import KafkaError, NetworkException
from kavka.model.types import Endpoint
from kavka.protocol.schema import declared

R = TypeVar("R")

FIRST_BACKOFF_SECONDS: Final = 0.02
LONGEST_BACKOFF_SECONDS: Final = 0.5
_Address = tuple[str, int]


class _Line:
    """An address, the connection to it while there is one, and how long not to dial it again."""

    __slots__ = ("backoff", "connection", "dialling", "not_before")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.dialling = asyncio.Lock()
        self.backoff = 0.0
        self.not_before = 0.0


class Peers:
    """Calls nodes by their endpoints."""

    def __init__(self, dial: Dial, client_id: str, listener: str, timeout_ms: int) -> None:
        self._dial = dial
        self._client_id = client_id
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._lines: dict[_Address, _Line] = {}
        self._closed = False

    async def call(
        self, endpoints: Iterable[Endpoint], request: Any, response: type[R], timeout_ms: int | None = None
    ) -> tuple[R, int]:
        """The answer to a request and the version it is in; raises KafkaError.

        A node answers the requests of a connection one after the other. So one that is sent while another waits for its
        answer, which nobody is interested in any more then, goes over a new connection.
        """
        address = self._address(endpoints)
        line = self._lines.setdefault(address, _Line())
        if line.connection is not None and line.connection.in_flight:
            line.connection.close()
        limit = self._timeout_ms if timeout_ms is None else timeout_ms
        async with asyncio.timeout(limit / 1000):
            connection = await self._open(address, line)
        version = connection.version(declared(type(request)).key)
        return await connection.request(request, response, version=version, timeout_ms=limit), version

    @property
    def waiting(self) -> int:
        """How many requests wait for their answer."""
        return sum(line.connection.in_flight for line in self._lines.values() if line.connection is not None)

    def close(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        for line in self._lines.values():
            if line.connection is not None:
                line.connection.close()
        self._lines.clear()

    def _address(self, endpoints: Iterable[Endpoint]) -> _Address:
        known = list(endpoints)
        if not known:
            raise NetworkException("it is not known where the node listens")
        chosen = next((one for one in known if one.listener == self._listener), known[0])
        return chosen.host, chosen.port

    async def _open(self, address: _Address, line: _Line) -> Connection:
        async with line.dialling:
            if line.connection is not None and not line.connection.closed:
                return line.connection
            loop = asyncio.get_running_loop()
            if line.not_before > loop.time():
                await asyncio.sleep(line.not_before - loop.time())
            if self._closed:
                raise NetworkException("this node is stopping")
            try:
                line.connection = await connect(
                    self._dial,
                    *address,
                    client_id=self._client_id,
                    request_timeout_ms=self._timeout_ms,
                    connect_timeout_ms=self._timeout_ms,
                )
            except KafkaError:
                line.backoff = min(max(line.backoff * 2, FIRST_BACKOFF_SECONDS), LONGEST_BACKOFF_SECONDS)
                line.not_before = loop.time() + line.backoff
                raise
            line.backoff = 0.0
            return line.connection
