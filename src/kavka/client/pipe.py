"""How a client in the same process reaches a server: by a pipe in memory instead of a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.client.dial import Transport
from kavka.model.errors import NetworkException
from kavka.net.pipe import Carry, pipe
from kavka.net.server import Server

HERE = "127.0.0.1"

Find = Callable[[str, int], tuple[Server, str] | None]
"""The server behind an address, and its listener there; None where nobody listens."""


class PipeDial:
    """Connects without a network."""

    def __init__(
        self, find: Find, *, host: str = HERE, to_server: Carry | None = None, to_client: Carry | None = None
    ) -> None:
        self._find = find
        self._host = host
        self._carry = (to_server, to_client)

    async def dial(self, host: str, port: int, receiver: asyncio.BufferedProtocol) -> Transport:
        """Connect to the server behind an address."""
        found = self._find(host, port)
        if found is None:
            raise NetworkException(f"cannot connect to {host}:{port}: nobody listens there")
        server, listener = found
        client, end = pipe(receiver, *self._carry)
        if server.open(listener, (self._host, 0), lambda session: end) is None:
            raise NetworkException(f"cannot connect to {host}:{port}: refused")
        return client
