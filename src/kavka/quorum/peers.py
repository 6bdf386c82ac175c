"""Lines to the other nodes of the quorum: one per address, its name resolved at each dial."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from kavka.client.connection import Connection
from kavka.client.connector import Connector
from kavka.client.deadline import within
from kavka.client.line import Address, Backoff, Line
from kavka.model.errors import NetworkException, RequestTimedOut
from kavka.model.types import Endpoint
from kavka.protocol.schema import declared

R = TypeVar("R")

RECONNECT: Final = Backoff(20, 500)


class Peers:
    """Calls nodes by their endpoints."""

    def __init__(self, connector: Connector, client_id: str, listener: str, timeout_ms: int) -> None:
        self._connector = connector
        self._client_id = client_id
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._lines: dict[Address, Line] = {}
        self._closed = False

    async def call(
        self, endpoints: Iterable[Endpoint], request: Any, response: type[R], timeout_ms: int | None = None
    ) -> tuple[R, int]:
        """The answer to a request and the version it is in; raises KafkaError.

        A node answers the requests of a connection one after the other. So one that is sent while another waits for its
        answer, which nobody is interested in any more then, goes over a new connection.
        """
        line = self._line(self._address(endpoints))
        if line.connection is not None and line.connection.in_flight:
            line.hang_up()
        limit = self._timeout_ms if timeout_ms is None else timeout_ms
        connection = line.connection or await self._connected(line, limit)
        version = connection.version(declared(type(request)).key)
        return await connection.request(request, response, version=version, timeout_ms=limit), version

    @property
    def waiting(self) -> int:
        """How many requests wait for their answer."""
        return sum(line.connection.in_flight for line in self._lines.values() if line.connection is not None)

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def _address(self, endpoints: Iterable[Endpoint]) -> Address:
        known = list(endpoints)
        if not known:
            raise NetworkException("it is not known where the node listens")
        chosen = next((endpoint for endpoint in known if endpoint.listener == self._listener), known[0])
        return chosen.host, chosen.port

    async def _connected(self, line: Line, timeout_ms: int) -> Connection:
        try:
            async with within(timeout_ms / 1000):
                return await line.connect()
        except TimeoutError:
            raise RequestTimedOut(f"{line.name} could not be reached within {timeout_ms} ms") from None

    def _line(self, address: Address) -> Line:
        if self._closed:
            raise NetworkException("this node is shutting down")
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = Line(
                self._connector,
                lambda: address,
                name="{}:{}".format(*address),
                client_id=self._client_id,
                request_timeout_ms=self._timeout_ms,
                connect_timeout_ms=self._timeout_ms,
                backoff=RECONNECT,
            )
        return line
