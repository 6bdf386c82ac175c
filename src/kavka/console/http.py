"""A small HTTP/1.1 server: h11 reads and writes the protocol, limits keep clients from taking more than their share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import h11

from kavka.client.deadline import within

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_CLIENTS: Final = 1000
IDLE_SECONDS: Final = 60
REQUEST_SECONDS: Final = 30
"""How long a client may take to send a request, and to take its answer."""
CHUNK: Final = 64 * 1024


class HttpRequest(NamedTuple):
    """A request, whole: the path is still quoted."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    client_host: str


class HttpResponse(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = {}


Respond = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpServer:
    """Serves one address; what is answered is somebody else's business."""

    def __init__(self, host: str, port: int, max_body_bytes: int, respond: Respond) -> None:
        self._host = host
        self._port = port
        self._max_body_bytes = max_body_bytes
        self._respond = respond
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.WriteTransport] = set()

    async def open(self) -> str:
        """Listen; the address that was bound."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_HEAD_BYTES)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

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
        if len(self._clients) >= MAX_CLIENTS:
            client.abort()
            return
        self._clients.add(client)
        peer = writer.get_extra_info("peername")
        exchange = _Exchange(reader, writer, self._max_body_bytes, peer[0] if peer else "")
        try:
            while await exchange.once(self._respond):
                pass
        except (TimeoutError, ConnectionError, h11.LocalProtocolError):
            pass  # a client that does not get on, or is gone: the connection is closed
        finally:
            self._clients.discard(client)
            client.abort()


class _Exchange:
    """The requests and answers of one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_body_bytes: int, client_host: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._max_body_bytes = max_body_bytes
        self._client_host = client_host
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def once(self, respond: Respond) -> bool:
        """Answer one request; whether there may be another."""
        try:
            async with within(IDLE_SECONDS):
                head = await self._event()
            if not isinstance(head, h11.Request):
                return False
            async with within(REQUEST_SECONDS):
                body = await self._body()
        except h11.RemoteProtocolError as error:
            await self._send(_plain(error.error_status_hint, "this is no HTTP request that can be read"))
            return False
        if body is None:
            await self._send(_plain(413, f"a request has at most {self._max_body_bytes} bytes"))
            return False
        try:
            response = await respond(self._request(head, body))
        except Exception:
            logger.exception("%s %s failed", head.method.decode("ascii"), head.target.decode("latin-1"))
            response = _plain(500, "the request failed: the node's log says why")
        await self._send(response, head.method == b"HEAD")
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._http.send(go_on) or b"")
            self._http.receive_data(await self._reader.read(CHUNK))
        return event  # type: ignore[return-value]

    async def _body(self) -> bytes | None:
        """The body; None if it is too large."""
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > self._max_body_bytes:
                return None
        return bytes(body)

    def _request(self, head: h11.Request, body: bytes) -> HttpRequest:
        path, _, query = head.target.decode("latin-1").partition("?")
        return HttpRequest(
            head.method.decode("ascii"),
            path,
            dict(parse_qsl(query, keep_blank_values=True)),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
            body,
            self._client_host,
        )

    async def _send(self, response: HttpResponse, only_head: bool = False) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            *response.headers.items(),
        ]
        data = self._http.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if not only_head:
            data += self._http.send(h11.Data(data=response.body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self._writer.write(data)
        async with within(REQUEST_SECONDS):
            await self._writer.drain()


def _plain(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode(), "text/plain; charset=utf-8", {"Connection": "close"})
