"""TLS on a socket that is ours: OpenSSL works in memory, and this moves the bytes.

What a peer sends is decrypted straight into the buffer that its frames are split in. What leaves is encrypted at most
one chunk ahead of what the socket takes, files included; buffers in OpenSSL never shrink, so they are fed in slices and
stay small. Until the handshake is done the owner hears of nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from kavka.model.types import FileSlice
from kavka.net.hangups import HangUps
from kavka.net.lobby import Lobby
from kavka.net.session import Session
from kavka.net.sockets import SocketTransport
from kavka.net.transport import END
from kavka.pacing.turns import Line

logger = logging.getLogger(__name__)

CHUNK_BYTES: Final = 256 * 1024
"""How much is encrypted for one send."""
SLICE_BYTES: Final = 64 * 1024
"""How much OpenSSL is given at a time, in either direction."""
RECORD_HEADER_BYTES: Final = 5
MAX_RECORD_BYTES: Final = 1 << 14
TURN_BYTES: Final = 1 << 19
"""After so much the other connections have their turn, however fast one client sends."""
CAREFUL_BYTES: Final = 4096
"""How much is taken at once of those who are not in, or send much that is no data: a slice of nothing but changes of
keys would hold the loop for tens of milliseconds."""
HANDSHAKE_RECORD: Final = 22


class RefusedError(Exception):
    """A client that is not let in although its handshake was all right: its certificate names nobody."""


class TlsListener:
    """What the connections of one listener share."""

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
        *,
        identify: Callable[[Session, bytes | None], None],
        line: Line,
        lobby: Lobby,
        enough: bool,
        failure_delay_ms: int,
    ) -> None:
        """The context is asked for at each handshake: another may have taken its place.

        `identify` is told of each client and its certificate, and may raise RefusedError.
        The handshake is `enough` to leave the lobby, unless clients have to log in as well. What those cost who are
        in the lobby is done in the listener's line.
        """
        self.context = context
        self.identify = identify
        self.line = line
        self.lobby = lobby
        self.enough = enough
        self.failure_delay = failure_delay_ms / 1000
        self.raw = memoryview(bytearray(SLICE_BYTES))
        """Where all connections receive, one after the other."""
        self.chunk = memoryview(bytearray(CHUNK_BYTES))
        """Where what is to be encrypted is put together."""
        self.succeeded = 0
        self.failed = 0

    def secure(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, hangups: HangUps, session: Session
    ) -> TlsTransport:
        """Carry a new connection."""
        return TlsTransport(loop, sock, hangups, session, self)


class TlsTransport(SocketTransport):
    """The bytes of a connection, encrypted."""

    __slots__ = (
        "_failed",
        "_hello",
        "_idle",
        "_in",
        "_incoming",
        "_open",
        "_outgoing",
        "_queued",
        "_session",
        "_shared",
        "_slice",
        "_starved",
        "_tls",
        "_unsent",
        "_warmed",
    )

    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _tls: ssl.SSLObject

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        hangups: HangUps,
        session: Session,
        shared: TlsListener,
    ) -> None:
        super().__init__(loop, sock, hangups)
        self._session = session
        self._shared = shared
        self._hello: bytearray | None = bytearray()
        """The beginning of a handshake; None once it is OpenSSL's. A client that only connects costs nothing more."""
        self._open = False
        self._in = False
        """Whether the client has left the lobby."""
        self._failed = False
        self._queued = False
        """Whether its turn is still to come."""
        self._slice = CAREFUL_BYTES
        self._idle = 0
        """How much has come that was no data; data makes up for as much again."""
        self._starved = True
        """Whether OpenSSL has given away all that it can decrypt."""
        self._unsent: list[bytes | memoryview] = []
        """What is encrypted and not sent."""
        self._warmed: FileSlice | None = None
        """A slice that is read even if it is not in the page cache."""

    # -- receiving ----------------------------------------------------------------------------

    def read_on(self) -> None:
        """Tell the owner of what comes, and of what has come."""
        paused = self._paused
        super().read_on()
        if paused and not self._starved:
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if not self.closed and not self._paused:
            self._on_readable()

    def _on_readable(self) -> None:
        if self._paused or self._failed or self._queued:
            self._unwatch()
        elif self._in:
            self._serve()
        elif self._open and self._owner not in self._shared.lobby:
            self._in = True
            self._serve()
        elif self._open:
            self._queued = True
            self._shared.line.take(self._serve_stranger)
        else:
            self._receive_handshake()

    def _serve_stranger(self) -> None:
        """Hear a client that still has to log in."""
        self._queued = False
        if not self.closed and not self._paused:
            super().read_on()
            self._serve()

    def _serve(self) -> None:
        """Have the owner take what can be decrypted, until it is the others' turn."""
        before = self.received_bytes
        self._owner.on_readable()
        while not (self._starved or self._paused or self.closed) and self.received_bytes - before < TURN_BYTES:
            self._owner.on_readable()
        if self.closed:
            return
        if self._outgoing.pending:  # an answer to a change of keys
            if not self.busy:
                self.flush()
            if self.busy and not self.closed:
                self.read_off()  # until that is taken
        if not (self._starved or self._paused or self.closed):
            self._loop.call_soon(self._resume)

    def receive_into(self, view: memoryview) -> int:
        """Receive and decrypt what is there, up to what fits."""
        if not self._open:
            return 0
        filled, size, tls = 0, len(view), self._tls
        more = TURN_BYTES
        while filled < size:
            try:
                count: int = tls.read(size - filled, view[filled:])  # type: ignore[assignment]  # how many, not which
            except ssl.SSLWantReadError:
                self._starved = True
                if more <= 0 or (more < TURN_BYTES and self._idle > 0) or (received := self._receive()) == 0:
                    return filled
                more = more - received if received == self._slice and self._in else 0
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                count = 0
            if not count:
                self._starved = True
                return filled or END
            filled += count
            self._idle -= 2 * count
        self._starved = False
        return filled

    def _receive(self) -> int:
        """Give OpenSSL what has come; how much that was, 0 for nothing now, END for the end."""
        if not self._in or self._idle > 2 * MAX_RECORD_BYTES:  # more than the beginning of a record
            self._slice = CAREFUL_BYTES
        elif self._idle < 0:
            self._slice = min(2 * self._slice, SLICE_BYTES)
        self._idle = max(self._idle, 0)
        raw = self._shared.raw[: self._slice]
        try:
            received = self._sock.recv_into(raw)
        except (BlockingIOError, InterruptedError):
            return 0
        if not received:
            self._incoming.write_eof()
            return END
        self.received_bytes += received
        self._idle += received
        self._incoming.write(raw[:received])
        return received

    # -- the handshake --------------------------------------------------------------------------

    def _receive_handshake(self) -> None:
        try:
            if self._hello is None:
                if self._receive() == END:
                    self._owner.close()
                    return
            elif not self._receive_hello(self._hello):
                return
        except OSError:
            self._owner.close()
            return
        self._paused = True  # until its turn has come
        self._shared.line.take(self._shake_hands)

    def _receive_hello(self, hello: bytearray) -> bool:
        """Whether the first record is there: before that nothing is spent on a client."""
        raw = self._shared.raw[:CAREFUL_BYTES]
        try:
            received = self._sock.recv_into(raw)
        except (BlockingIOError, InterruptedError):
            return False
        if not received:
            self._owner.close()
            return False
        self.received_bytes += received
        hello += raw[:received]
        if hello[0] != HANDSHAKE_RECORD or (len(hello) > 1 and hello[1] != 3):
            self._fail("this is no TLS: is the client configured for another security protocol?")
            return False
        if len(hello) < RECORD_HEADER_BYTES:
            return False
        length = int.from_bytes(hello[3:RECORD_HEADER_BYTES], "big")
        if not 0 < length <= MAX_RECORD_BYTES:
            self._fail("the first record has no sensible length")
            return False
        if len(hello) < RECORD_HEADER_BYTES + length:
            return False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._shared.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._incoming.write(hello)
        self._hello = None
        return True

    def _shake_hands(self) -> None:
        """Go on with the handshake as far as what has come allows."""
        if self.closed or self._open or self._failed:
            return
        self._paused = False
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self.flush()
            self.read_on()
            return
        except (ssl.SSLError, OSError) as error:
            self._fail(reason_of(error))
            return
        shared = self._shared
        try:
            shared.identify(self._session, self._tls.getpeercert(binary_form=True))
        except RefusedError as error:
            self._fail(str(error))
            return
        shared.succeeded += 1
        self._open = True
        self._idle = 0
        if shared.enough:
            shared.lobby.leave(self._owner)
        self.flush()
        if not self.closed:
            self._starved = False  # requests may have come with the end of the handshake
            self.read_on()
            self._serve()

    def _fail(self, reason: str) -> None:
        """Say why, if that is possible, and hang up after a delay."""
        self._failed = True
        self._shared.failed += 1
        session = self._session
        logger.info(
            "SSL handshake with %s:%d failed on %s: %s",
            session.client_host,
            session.client_port,
            session.listener,
            reason,
        )
        self._unwatch()
        if self._hello is None:
            self.flush()  # the alert
        if not self.closed:
            self._loop.call_later(self._shared.failure_delay, self._owner.close)

    # -- sending --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Encrypt and send what the socket takes and the page cache has."""
        if self._hello is not None:
            return
        try:
            while not self.busy and self._send():
                if not self._open or not self.out:
                    return
                chunk = self._next_chunk()
                if chunk is None:
                    return
                self._encrypt(chunk)
        except OSError:
            self._owner.close()

    def _send(self) -> bool:
        """Whether the socket has taken all that is encrypted."""
        if self._outgoing.pending:
            self._unsent.append(self._outgoing.read())
        unsent = self._unsent
        while unsent:
            try:
                sent = self._sock.send(unsent[0]) if len(unsent) == 1 else self._sock.sendmsg(unsent)
            except (BlockingIOError, InterruptedError):
                sent = 0
            self.sent_bytes += sent
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.pop(0))
            if unsent:
                unsent[0] = memoryview(unsent[0])[sent:]
                self._wait_writable()
                return False
        return True

    def _encrypt(self, chunk: memoryview) -> None:
        for start in range(0, len(chunk), SLICE_BYTES):
            part = chunk[start : start + SLICE_BYTES]
            while part:
                part = part[self._tls.write(part) :]
            self._unsent.append(self._outgoing.read())

    def _next_chunk(self) -> memoryview | None:
        """What is sent next, put together; None if the disk has to be waited for, or the connection is closed."""
        out, chunk = self.out, self._shared.chunk
        filled = 0
        while out and filled < CHUNK_BYTES:
            head = out[0]
            room = chunk[filled : filled + len(head)]
            if type(head) is not FileSlice:
                data = memoryview(head)  # type: ignore[arg-type]
                if not filled and len(data) >= CHUNK_BYTES:
                    self._took(head, CHUNK_BYTES)
                    return data[:CHUNK_BYTES]
                room[:] = data[: len(room)]
                taken = len(room)
            elif (taken := self._read(head, room)) == 0 and head.length:
                if not filled and not self.closed and head is not self._warmed:
                    self._warmed = head
                    self._wait_for_disk(head)
                break
            filled += taken
            self._took(head, taken)
        return chunk[:filled] if filled and not self.closed else None

    def _read(self, piece: FileSlice, room: memoryview) -> int:
        """Read the beginning of a slice as far as it is in the page cache, or all the way once that was waited for."""
        waits = piece is self._warmed
        fd = piece.file.fileno()
        try:
            count = os.preadv(fd, [room], piece.position, 0 if waits else os.RWF_NOWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            if waits or error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            count, waits = os.preadv(fd, [room], piece.position), True  # this file system cannot tell
        if not count and piece.length and waits:
            self._owner.close()  # the file is shorter than it was: the announced length cannot be kept
        return count

    def _took(self, head: object, count: int) -> None:
        """Take the beginning of the first piece out of the queue."""
        if type(head) is not FileSlice:
            rest = memoryview(head)[count:]  # type: ignore[arg-type]
            if rest:
                self.out[0] = rest
            else:
                self.out.popleft()
        elif count == head.length:
            self.out.popleft()
            head.file.unpin()
        else:
            rest_of_file = FileSlice(head.file, head.position + count, head.length - count)
            if head is self._warmed:
                self._warmed = rest_of_file
            self.out[0] = rest_of_file

    # -- closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Drop the connection; the peer is told that this is the end, if nothing is in the way."""
        if self._open and not self.closed and not self._unsent:
            with contextlib.suppress(OSError):  # it may be gone
                with contextlib.suppress(ssl.SSLError):  # it has not said the same yet
                    self._tls.unwrap()
                self._sock.send(self._outgoing.read())
        self._unsent.clear()
        super().close()


def reason_of(error: OSError) -> str:
    """Why a handshake failed, in OpenSSL's words without their source line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error)
