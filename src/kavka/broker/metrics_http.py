"""What is asked of a node over plain HTTP: its metrics, and whether it lives and serves.

/metrics is for Prometheus. /healthz answers as long as the node's loop runs; /readyz says 503 and why while the node
does not serve its clients: it starts, stops, is fenced, or no controller is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.client.deadline import within
from kavka.telemetry.metrics import Metrics
from kavka.telemetry.prometheus import CONTENT_TYPE, parts

MAX_REQUEST_BYTES: Final = 8192
CLIENT_SECONDS: Final = 10
TEXT: Final = "text/plain; charset=utf-8"
TURN_SECONDS: Final = 0.005
"""After this long the requests of clients have their turn."""


class MetricsPage:
    """Serves the metrics of a node."""

    def __init__(
        self, metrics: Metrics, host: str, port: int, unready: Callable[[], str | None] = lambda: None
    ) -> None:
        """`unready` says why the node does not serve clients; None if it does."""
        self._metrics = metrics
        self._unready = unready
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.WriteTransport] = set()

    async def open(self) -> str:
        """Listen; the address that was bound."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_REQUEST_BYTES)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def run(self) -> None:
        """Serve until cancelled."""
        assert self._server is not None
        try:
            await asyncio.Event().wait()
        finally:
            self._server.close()
            for client in list(self._clients):
                client.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = writer.transport
        self._clients.add(client)
        try:
            async with within(CLIENT_SECONDS):
                writer.write(await self._answer(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
            writer.close()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # nobody who scrapes: the connection is closed
        finally:
            self._clients.discard(client)
            if not writer.is_closing():
                client.abort()  # not even what was written waits for a client that does not read

    async def _answer(self, head: bytes) -> bytes:
        request = head.split(b"\r\n", 1)[0].split(b" ")
        if len(request) != 3 or request[0] not in (b"GET", b"HEAD"):
            return response("405 Method Not Allowed", b"only GET is served here\n")
        status, body, content_type = await self._page(request[1].partition(b"?")[0])
        return response(status, body if request[0] == b"GET" else b"", content_type)

    async def _page(self, path: bytes) -> tuple[str, bytes, str]:
        if path == b"/metrics":
            return "200 OK", await self._rendered(), CONTENT_TYPE
        if path == b"/healthz":
            return "200 OK", b"ok\n", TEXT
        if path == b"/readyz":
            reason = self._unready()
            if reason is None:
                return "200 OK", b"ok\n", TEXT
            return "503 Service Unavailable", f"{reason}\n".encode(), TEXT
        return "404 Not Found", b"there are /metrics, /healthz and /readyz\n", TEXT

    async def _rendered(self) -> bytes:
        """The metrics, in turns with what clients want."""
        loop, page = asyncio.get_running_loop(), bytearray()
        turn_ends = loop.time() + TURN_SECONDS
        for part in parts(self._metrics):
            page += part
            if loop.time() >= turn_ends:
                await asyncio.sleep(0)
                turn_ends = loop.time() + TURN_SECONDS
        return bytes(page)


def response(status: str, body: bytes, content_type: str = TEXT) -> bytes:
    """A whole HTTP response that ends its connection."""
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", "Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body
