"""How a broker asks other brokers: one line to each, over the listener that brokers use among themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kavka.client.connector import Connector
from kavka.client.line import STEADY, Address, Line
from kavka.metadata.image import MetadataImage
from kavka.model.errors import BrokerNotAvailable

CONNECT_TIMEOUT_MS: Final = 2_000


class BrokerChannels:
    """Lines to the other brokers of the cluster, by their ids."""

    def __init__(
        self, image: Callable[[], MetadataImage], listener: str, connector: Connector, *, timeout_ms: int
    ) -> None:
        self._image = image
        self._listener = listener
        self._connector = connector
        self._timeout_ms = timeout_ms
        self._lines: dict[int, Line] = {}

    async def ask(self, node: int, request: Any) -> Any:
        """A broker's answer; raises KafkaError if there is none."""
        line = self._lines.get(node)
        if line is None:
            line = self._lines[node] = Line(
                self._connector,
                partial(self._address, node),
                name=f"broker {node}",
                client_id="kavka-node",
                request_timeout_ms=self._timeout_ms,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                backoff=STEADY,
            )
        return await line.request(request)

    def _address(self, node: int) -> Address:
        broker = self._image().cluster.brokers.get(node)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(self._listener)
        if endpoint is None:
            raise BrokerNotAvailable(f"broker {node} is fenced or not registered")
        return endpoint.host, endpoint.port

    def close(self) -> None:
        """Hang up everywhere."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()
