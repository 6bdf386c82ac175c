"""Listening sockets: accept within the limits, close idle connections, drain on stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kavka.model.clock import Clock
from kavka.model.types import EVERY_ADDRESS
from kavka.net.acceptor import Acceptor, Address
from kavka.net.buffers import ReceiveBuffers
from kavka.net.connection import Connection, Meter, Receiver
from kavka.net.hangups import HangUps
from kavka.net.limits import ConnectionCount, ConnectionLimits
from kavka.net.memory import RequestMemory
from kavka.net.plain import plain
from kavka.net.session import Session
from kavka.net.sockets import Secure
from kavka.net.transport import Transport

logger = logging.getLogger(__name__)

TURNED_AWAY_AT_ONCE = 1000
"""So many connections that came too fast are kept for a while before they are closed; more are closed at once."""
NOT_SENT_BYTES = 128 * 1024
"""How far an answer may run ahead of what the network takes. Without a limit a large answer trickles into the socket
and wakes its reader for every few segments. The limit must exceed any segment (64 KiB): a socket that is full for it
then always has a whole segment to send, and so something that will make it writable again."""


class AddressInUseError(OSError):
    """A listener's address cannot be bound."""


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Kernel buffer sizes; -1 leaves them to the kernel's own tuning."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50


class Served(Protocol):
    """A connection to whoever accepted it, whatever protocol is spoken on it."""

    @property
    def session(self) -> Session:
        """Who is at the other end."""

    @property
    def transport(self) -> Transport:
        """What carries its bytes."""

    @property
    def muted(self) -> bool:
        """Whether the client is made to wait."""

    def start(self) -> None:
        """Begin to read."""

    def when_closed(self, key: Hashable, callback: Callable[[], None]) -> None:
        """Have a function called once the connection closes."""

    def look_for_end(self) -> None:
        """See whether a client that is made to wait has left."""

    def finish(self) -> None:
        """Read no more, and close when all that was asked is answered."""

    def close(self) -> None:
        """Drop the connection and everything not yet sent."""


Welcome = Callable[[Any], None]
"""Sees a new connection before its first byte; whoever logs clients in takes the dispatcher's place there."""
Connect = Callable[[Session, Transport, Callable[[Served], None]], Served]
"""Makes a connection on which another protocol than Kafka's is spoken; it says when it is closed."""


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener whose port is known and whose clients can queue, but which is not served yet."""

    name: str
    host: str
    port: int
    socket: socket.socket
    secure: Secure = plain
    """Makes the transport of a new connection."""
    security_protocol: str = "PLAINTEXT"
    welcome: Welcome | None = None
    connect: Connect | None = None
    """Makes what serves its connections; None where they speak Kafka's protocol."""


def bind(name: str, host: str, port: int, options: SocketOptions, *, both: bool = True) -> BoundListener:
    """Open a listening socket; port 0 picks a free one.

    A host that stands for every address means those of IPv6 too, unless another listener has `both` apart.
    """
    try:
        sock = _listening(host, port, options, both)
    except OSError as error:
        raise AddressInUseError(error.errno, f"cannot listen on {host}:{port} ({name}): {error.strerror}") from None
    sock.setblocking(False)
    return BoundListener(name, host, sock.getsockname()[1], sock)


def _listening(host: str, port: int, options: SocketOptions, both: bool) -> socket.socket:
    if both and host in EVERY_ADDRESS and socket.has_dualstack_ipv6():
        host = "::"
    family, kind, proto, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        if options.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        sock.bind(address)
        sock.listen(options.backlog)
    except OSError:
        sock.close()
        raise
    return sock


class _Movement(NamedTuple):
    """How much a connection had moved when it last did."""

    moved_bytes: int
    since_ms: int


class Server:
    """All client listeners of a node and their connections."""

    def __init__(
        self,
        listeners: list[BoundListener],
        dispatch: Receiver,
        limits: ConnectionLimits,
        options: SocketOptions,
        clock: Clock,
        admit: Callable[[Session], None] | None = None,
        meter: Meter | None = None,
    ) -> None:
        """`admit` is told of every new session, and may set a guard on it; the meter counts what clients send."""
        self._admit_session = admit
        self._listeners = listeners
        self._acceptors: dict[str, Acceptor] = {}
        self._turned_away: dict[socket.socket, asyncio.TimerHandle] = {}
        self.turned_away = 0
        """How many connections were closed because their address opened them too fast."""
        self._delayed_before = 0
        self._dispatch = dispatch.__call__  # bound, as the dispatcher binds its own
        self._meter = meter
        self._limits = limits
        self._options = options
        self._clock = clock
        self._buffers = ReceiveBuffers()
        self.memory = RequestMemory(limits.queued_bytes, self._buffers.scarce)
        self._hangups: HangUps | None = None
        self._count = ConnectionCount(limits)
        self._next_id = 0
        self._draining = False
        self._all_gone = asyncio.Event()
        self.connections: dict[int, Served] = {}
        self._seen: dict[int, _Movement] = {}
        self._received_before = 0  # by connections that are closed
        self._sent_before = 0

    async def run(self) -> None:
        """Serve until cancelled; then stop accepting and close what is left."""
        for listener in self._listeners:
            self.listen(listener)
        sweep_seconds = max(1.0, min(10.0, self._limits.idle_ms / 2000)) if self._limits.idle_ms > 0 else 10.0
        try:
            while True:
                await asyncio.sleep(sweep_seconds)
                self._close_idle()
                for connection in list(self.connections.values()):
                    connection.look_for_end()
                self._count.forget_idle(self._clock.monotonic_ms())
        finally:
            self._draining = True
            for name in list(self._acceptors):
                self._stop_listening(name)
            for sock in list(self._turned_away):
                self._close_turned_away(sock)
            for connection in list(self.connections.values()):
                connection.close()
            if self._hangups is not None:
                self._hangups.close()

    async def drain(self, timeout_ms: int) -> None:
        """Stop accepting and reading, and wait until what was asked is answered."""
        self._draining = True
        for acceptor in self._acceptors.values():
            acceptor.off()
        for connection in list(self.connections.values()):
            connection.finish()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), timeout_ms / 1000)

    def limit(self, limits: ConnectionLimits) -> None:
        """Take over changed caps; connections that are there stay."""
        self._limits = self._count.limits = limits
        self.memory.limit = limits.queued_bytes
        for acceptor in self._acceptors.values():
            acceptor.room()

    @property
    def delayed(self) -> int:
        """How many connections had to wait because they came too fast."""
        return self._delayed_before + sum(acceptor.delayed for acceptor in self._acceptors.values())

    @property
    def received_bytes(self) -> int:
        """All bytes that clients have sent."""
        return self._received_before + sum(
            connection.transport.received_bytes for connection in self.connections.values()
        )

    @property
    def sent_bytes(self) -> int:
        """All bytes that clients were sent."""
        return self._sent_before + sum(connection.transport.sent_bytes for connection in self.connections.values())

    # -- accepting ----------------------------------------------------------------------

    def listen(self, listener: BoundListener) -> None:
        """Accept connections on a listener, from now on."""
        if self._hangups is None:
            self._hangups = HangUps(asyncio.get_running_loop())

        def admit(sock: socket.socket, address: Address) -> None:
            self._admit(listener, sock, address)

        acceptor = Acceptor(listener.name, listener.socket, self._count, self._clock, admit)
        self._acceptors[listener.name] = acceptor
        if not self._draining:
            acceptor.on()

    def unlisten(self, name: str) -> None:
        """Give a listener up: nobody is accepted there any more, and those who were are dropped."""
        self._stop_listening(name)
        for connection in list(self.connections.values()):
            if connection.session.listener == name:
                connection.close()

    def _stop_listening(self, name: str) -> None:
        acceptor = self._acceptors.pop(name)
        self._delayed_before += acceptor.delayed
        acceptor.off()
        acceptor.socket.close()

    def _admit(self, listener: BoundListener, sock: socket.socket, address: tuple[str, int]) -> None:
        # A listener on all IPv6 addresses takes IPv4 clients too, and shows their addresses in this form.
        host, port = address[0].removeprefix("::ffff:"), address[1]
        delay_ms = self._count.too_fast(listener.name, host, self._clock.monotonic_ms())
        if delay_ms > 0:
            self._turn_away(sock, delay_ms)
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOT_SENT_BYTES)
            if self._options.send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer_bytes)
        except OSError:  # the client has gone already
            sock.close()
            return
        loop, hangups = asyncio.get_running_loop(), self._hangups
        assert hangups is not None  # nobody is accepted before the server runs
        secure = listener.secure
        opened = self.open(
            listener.name,
            (host, port),
            lambda session: secure(loop, sock, hangups, session),
            listener.security_protocol,
            listener.welcome,
            listener.connect,
        )
        if opened is None:
            logger.debug("rejected a connection from %s: max.connections.per.ip reached", host)
            sock.close()

    def _turn_away(self, sock: socket.socket, delay_ms: int) -> None:
        """Close a connection that came too fast, but only after a while, so that it is not tried again at once."""
        self.turned_away += 1
        if len(self._turned_away) >= TURNED_AWAY_AT_ONCE:
            sock.close()
            return
        loop = asyncio.get_running_loop()
        self._turned_away[sock] = loop.call_later(delay_ms / 1000, self._close_turned_away, sock)

    def _close_turned_away(self, sock: socket.socket) -> None:
        self._turned_away.pop(sock).cancel()
        sock.close()

    def open(
        self,
        listener: str,
        client: tuple[str, int],
        transport: Callable[[Session], Transport],
        security_protocol: str = "PLAINTEXT",
        welcome: Welcome | None = None,
        connect: Connect | None = None,
    ) -> Served | None:
        """Serve a new connection, unless its address has its share already or nobody new is served."""
        host, port = client
        if self._draining or not self._count.admit(host, listener):
            return None
        self._next_id += 1
        session = Session(self._next_id, listener, host, port, security_protocol=security_protocol)
        if self._admit_session is not None:
            self._admit_session(session)
        connection = (connect or self._connect)(session, transport(session), self._closed)
        self.connections[session.id] = connection
        if welcome is not None:
            welcome(connection)
        connection.start()
        return connection

    def _connect(self, session: Session, transport: Transport, on_close: Callable[[Served], None]) -> Connection:
        return Connection(
            loop=asyncio.get_running_loop(),
            transport=transport,
            session=session,
            receiver=self._dispatch,
            buffers=self._buffers,
            max_frame=self._limits.max_frame_bytes,
            cap_of=self._limits.cap_of,
            memory=self.memory,
            on_close=on_close,
            meter=self._meter,
        )

    def _closed(self, connection: Served) -> None:
        session, transport = connection.session, connection.transport
        del self.connections[session.id]
        self._seen.pop(session.id, None)
        self._received_before += transport.received_bytes
        self._sent_before += transport.sent_bytes
        self._count.release(session.client_host, session.listener)
        if self._draining and not self.connections:
            self._all_gone.set()
        for acceptor in self._acceptors.values():
            acceptor.room()

    def _close_idle(self) -> None:
        if self._limits.idle_ms <= 0:
            return
        now_ms = self._clock.monotonic_ms()
        for number, connection in list(self.connections.items()):
            moved = connection.transport.received_bytes + connection.transport.sent_bytes
            seen = self._seen.get(number)
            if seen is None or seen.moved_bytes != moved or connection.muted:
                self._seen[number] = _Movement(moved, now_ms)
            elif now_ms - seen.since_ms >= self._limits.idle_ms:
                logger.debug("closing idle connection %d from %s", number, connection.session.client_host)
                connection.close()
