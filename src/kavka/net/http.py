"""HTTP/1.1 on a connection of the node: h11 reads and writes the protocol, limits keep clients to their share.

Who accepts and secures connections is somebody else, and so is who answers; each connection has a task that serves its
requests one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl

import h11

from kavka.net.server import Served
from kavka.net.session import Session
from kavka.net.transport import END, Transport

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 24 * 1024
MAX_CLIENTS: Final = 1000
MAX_STRANGERS: Final = 500
"""How many connections there may be of those who are not let in yet; then the oldest gives way. Each holds a head."""
MAX_STRANGER_BYTES: Final = 512 * 1024
"""How much of a body is heard, and forgotten, of somebody who is not let in: so that they get their answer."""
MAX_BODIES_BYTES: Final = 64 << 20
"""How much of bodies there may be at a time, of all connections."""
MAX_FORGOTTEN_BYTES: Final = 32 << 20
"""How much of a body that is too large is received, and forgotten, after the answer: a reset would take it away."""
FORGETTING_SECONDS: Final = 10
"""For how long that is done."""
IDLE_SECONDS: Final = 60
REQUEST_SECONDS: Final = 30
"""How long a client may take to send a request, and to take its answer."""
CHUNK: Final = 64 * 1024


class HttpRequest(NamedTuple):
    """A request, whole: the path is still quoted."""

    method: str
    path: str
    query: Mapping[str, str]
    """The parameters; the values of one that comes several times are lines."""
    headers: Mapping[str, str]
    body: bytes


def query_of(text: str) -> dict[str, str]:
    """The parameters of a query; the values of one that comes several times are lines."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: "\n".join(values) for name, values in found.items()}


class HttpResponse(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


class Answers(Protocol):
    """Who answers."""

    async def let_in(self, connection: HttpConnection, headers: Mapping[str, str]) -> HttpResponse | None:
        """What somebody is told who may not ask anything; None for others."""

    async def respond(self, connection: HttpConnection, request: HttpRequest) -> HttpResponse:
        """The answer to a request."""


class GoneError(Exception):
    """The client is gone."""


class HttpServing:
    """Serves the connections that it is given."""

    def __init__(self, answers: Answers, max_body_bytes: int) -> None:
        self.answers = answers
        self.max_body_bytes = max_body_bytes
        self.bodies_bytes = 0
        """How much of bodies there is now."""
        self.buffer = memoryview(bytearray(CHUNK))
        """Where all connections receive, one after the other."""
        self.clients: set[HttpConnection] = set()
        """Those who were let in."""
        self.strangers: dict[HttpConnection, None] = {}
        """The others, the oldest first."""
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    def connect(self, session: Session, transport: Transport, on_close: Callable[[Served], None]) -> HttpConnection:
        """Take a new connection over."""
        return HttpConnection(self, session, transport, on_close)

    def begin(self, connection: HttpConnection, serving: Callable[[], Any]) -> bool:
        """Serve a connection in a task of its own; False if none are served any more."""
        if self._tasks is None:
            return False
        work = serving()
        try:
            self._tasks.create_task(work)
        except RuntimeError:  # the node stops
            work.close()
            return False
        if len(self.strangers) >= MAX_STRANGERS:
            next(iter(self.strangers)).close()
        self.strangers[connection] = None
        return True

    def admit(self, connection: HttpConnection) -> bool:
        """Count a connection among those who are let in; False if there are too many."""
        if connection.closed or connection in self.clients:
            return True
        if len(self.clients) >= MAX_CLIENTS:
            return False
        self.strangers.pop(connection, None)
        self.clients.add(connection)
        return True

    def forget(self, connection: HttpConnection) -> None:
        """A connection is closed."""
        self.strangers.pop(connection, None)
        self.clients.discard(connection)


class HttpConnection:
    """One connection, and its requests."""

    muted: bool = False

    def __init__(
        self, serving: HttpServing, session: Session, transport: Transport, on_close: Callable[[Served], None]
    ) -> None:
        self.session = session
        """Who is at the other end; for those who let them in."""
        self.transport = transport
        self.closed = False
        self._serving = serving
        self._on_close = on_close
        self._closing: dict[Hashable, Callable[[], None]] = {}
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._unread = bytearray()
        self._ended = False
        self._leaving = False
        self._idle = True
        self._moved = asyncio.Event()

    # -- what the transport and the server tell -------------------------------------------------------

    def start(self) -> None:
        """Begin to read."""
        if self._serving.begin(self, self._serve):
            self.transport.open(self)
        else:
            self.close()

    def on_readable(self) -> None:
        """Receive what there is."""
        buffer = self._serving.buffer
        try:
            received = self.transport.receive_into(buffer)
        except OSError:
            self.close()
            return
        if received == END:
            self._ended = True
            self.transport.read_off()
        else:
            self._unread += buffer[:received]
            if len(self._unread) >= CHUNK:
                self.transport.read_off()
        self._moved.set()

    def on_writable(self) -> None:
        """Send on."""
        self.transport.flush()
        self._moved.set()

    def on_hang_up(self) -> None:
        """The client is gone."""
        self.close()

    def look_for_end(self) -> None:
        """Nobody is made to wait here."""

    def when_closed(self, key: Hashable, callback: Callable[[], None]) -> None:
        """Have a function called once the connection closes; a later one of the same key takes its place."""
        if self.closed:
            callback()
        else:
            self._closing[key] = callback

    def finish(self) -> None:
        """Read no more, and close when what was asked is answered."""
        self._leaving = True
        if self._idle:
            self.close()

    def close(self) -> None:
        """Drop the connection."""
        if self.closed:
            return
        self.closed = True
        self._serving.forget(self)
        self._moved.set()
        self.transport.close()
        self._on_close(self)
        for callback in self._closing.values():
            callback()

    # -- serving --------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while not self._leaving and await self._once():
                pass
        except (TimeoutError, GoneError, h11.LocalProtocolError):
            pass  # a client that does not get on, or is gone: the connection is closed
        except Exception:
            logger.exception("a connection of %s failed", self.session)
        finally:
            self.close()

    async def _once(self) -> bool:
        """Answer one request; whether there may be another."""
        held = 0
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                head = await self._event()
            if not isinstance(head, h11.Request):
                return False
            self._idle = False
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
            response = await self._serving.answers.let_in(self, headers)
            if response is None and not self._serving.admit(self):
                response = _plain(503, "there are too many clients: try again")
            async with asyncio.timeout(REQUEST_SECONDS):
                body = bytearray()
                limit = self._serving.max_body_bytes if response is None else MAX_STRANGER_BYTES
                size = 0
                while isinstance(event := await self._event(), h11.Data):
                    size += len(event.data)
                    if size > limit:
                        break
                    if response is None:
                        held += len(event.data)
                        self._serving.bodies_bytes += len(event.data)
                        body += event.data
                        if self._serving.bodies_bytes > MAX_BODIES_BYTES:
                            break
            if response is None and size > limit:
                response = _plain(413, f"a request has at most {limit} bytes")
            elif response is None and isinstance(event, h11.Data):
                response = _plain(503, "there are too many large requests: try again")
            if response is None:
                response = await self._answer(head, headers, bytes(body))
        except h11.RemoteProtocolError as error:
            response, head = _plain(error.error_status_hint, "this is no HTTP request that can be read"), None
        finally:
            self._serving.bodies_bytes -= held
        await self._send(response, head is not None and head.method == b"HEAD")
        self._idle = True
        if self._http.their_state is h11.SEND_BODY and self in self._serving.clients:
            await self._forget_body()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _answer(self, head: h11.Request, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        path, _, query = head.target.decode("latin-1").partition("?")
        method = head.method.decode("ascii")
        request = HttpRequest(method, path, query_of(query), headers, body)
        try:
            return await self._serving.answers.respond(self, request)
        except Exception:
            logger.exception("%s %s failed", method, path)
            return _plain(500, "the request failed: the node's log says why")

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                self._put(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
            while not (self._unread or self._ended):
                await self._move()
            data = bytes(self._unread)  # none of it is the end
            self._unread.clear()
            if not self._ended:
                self.transport.read_on()
            self._http.receive_data(data)
        return event  # type: ignore[return-value]

    async def _forget_body(self) -> None:
        forgotten = 0
        async with asyncio.timeout(FORGETTING_SECONDS):
            while not self._ended and forgotten < MAX_FORGOTTEN_BYTES:
                forgotten += len(self._unread)
                self._unread.clear()
                self.transport.read_on()
                await self._move()

    async def _move(self) -> None:
        """Wait until something has come or gone; raises GoneError."""
        self._moved.clear()
        if not self.closed:
            await self._moved.wait()
        if self.closed:
            raise GoneError

    def _put(self, data: bytes | None) -> None:
        if data and not self.closed:
            self.transport.out.append(data)
            self.transport.flush()

    async def _send(self, response: HttpResponse, only_head: bool) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            *response.headers,
        ]
        data = self._http.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if not only_head:
            data += self._http.send(h11.Data(data=response.body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self._put(data)
        async with asyncio.timeout(REQUEST_SECONDS):
            while self.transport.out or self.transport.busy:
                await self._move()


def _plain(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode(), "text/plain; charset=utf-8", (("Connection", "close"),))
