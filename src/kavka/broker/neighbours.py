"""How a broker asks other brokers: one connection to each, opened when first needed, found anew when it breaks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kavka.client.dial import Dial
from kavka.metadata.image import MetadataImage
from kavka.model.errors import BrokerNotAvailable
from kavka.protocol.registry import API
from kavka.protocol.schema import declared

if TYPE_CHECKING:
    from kavka.client.connection import Connection

CONNECT_TIMEOUT_MS: Final = 2_000


class Neighbours:
    """Connections to the other brokers of the cluster, by the listener that brokers use among themselves."""

    def __init__(self, image: Callable[[], MetadataImage], listener: str, dial: Dial, *, timeout_ms: int) -> None:
        self._image = image
        self._listener = listener
        self._dial = dial
        self._timeout_ms = timeout_ms
        self._connections: dict[int, tuple[tuple[str, int], Connection]] = {}
        self._dialling: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ask(self, node: int, request: Any) -> Any:
        """A broker's answer; raises KafkaError if there is none."""
        connection = await self._to(node)
        response = API[declared(type(request)).key].response()
        return await connection.request(request, response, timeout_ms=self._timeout_ms)

    async def _to(self, node: int) -> Connection:
        async with self._dialling[node]:
            broker = self._image().cluster.brokers.get(node)
            endpoint = None if broker is None or broker.fenced else broker.endpoint(self._listener)
            if endpoint is None:
                raise BrokerNotAvailable(f"node {node} is not in service")
            address = (endpoint.host, endpoint.port)
            known = self._connections.get(node)
            if known is not None and known[0] == address and not known[1].closed:
                return known[1]
            if known is not None:
                known[1].close()
            from kavka.client.connection import connect  # a node that is alone never needs it

            found = await connect(
                self._dial,
                *address,
                client_id="kavka-node",
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                request_timeout_ms=self._timeout_ms,
            )
            self._connections[node] = (address, found)
            return found

    def close(self) -> None:
        """Hang up everywhere."""
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()
