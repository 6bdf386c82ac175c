"""The page that Prometheus scrapes: GET /metrics over plain HTTP, nothing else."""

from __future__ import annotations

import asyncio
from typing import Final

from kavka.client.deadline import within
from kavka.telemetry.metrics import Metrics
from kavka.telemetry.prometheus import CONTENT_TYPE, render

MAX_REQUEST_BYTES: Final = 8192
CLIENT_SECONDS: Final = 10


class MetricsPage:
    """Serves the metrics of a node."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self._metrics = metrics
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
                writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
            writer.close()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # nobody who scrapes: the connection is closed
        finally:
            self._clients.discard(client)
            if not writer.is_closing():
                client.abort()  # not even what was written waits for a client that does not read

    def _answer(self, head: bytes) -> bytes:
        request = head.split(b"\r\n", 1)[0].split(b" ")
        if len(request) != 3 or request[0] not in (b"GET", b"HEAD"):
            return response("405 Method Not Allowed", b"only GET is served here\n")
        if request[1].partition(b"?")[0] != b"/metrics":
            return response("404 Not Found", b"the metrics are at /metrics\n")
        body = render(self._metrics)
        return response("200 OK", body if request[0] == b"GET" else b"", CONTENT_TYPE)


def response(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    """A whole HTTP response that ends its connection."""
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", "Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body
