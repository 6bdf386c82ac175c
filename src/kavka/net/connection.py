"""One client connection: frames in, responses out in request order.

The socket is ours (non-blocking, add_reader/add_writer). Whole frames are handed to the
dispatcher inside the read callback; all responses that one read produced leave in one send.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from time import monotonic
from typing import Final, Protocol

from kavka.kernels.frames import split
from kavka.model.errors import KafkaError
from kavka.model.types import FileSlice, Piece

log = logging.getLogger(__name__)

SHARED_BUFFER_BYTES: Final = 256 * 1024
POOLED_BUFFER_BYTES: Final = 1024 * 1024 + 64 * 1024
MAX_UNSENT_BYTES: Final = 1024 * 1024
"""Requests behind this much unsent response wait, so that a client that sends without reading costs no memory."""
SMALL_SLICE_BYTES: Final = 16 * 1024
"""Up to here a slice of a file is read and goes out with its neighbours: a system call each for many small ones."""
RUN_BYTES: Final = 256 * 1024
"""About how much is put together for one send."""
TURN_SECONDS: Final = 0.01
"""After this long the other connections have their turn, however many requests one client has sent at once."""
FRAMES_BETWEEN_LOOKS: Final = 64
SLOT_BYTES: Final = 1024
"""What an answer that is not there yet counts for among the unsent bytes."""
PROBE_STEP: Final = 512 * 1024
"""One byte in this many, and the last, tell whether a range is cached: what is evicted goes in long runs."""


class Pending(Enum):
    """The dispatcher's answer when the response comes later, through the slot it opened."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING


Reply = bytes | list[Piece] | Pending | None
"""An answer to send now, whole or in pieces, nothing at all, or an answer that comes later through a slot."""


class Dispatch(Protocol):
    """What a connection calls for each frame."""

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int) -> Reply:
        """Answer now, never (None) or later (PENDING); raise to close the connection."""


class ReceiveBuffers:
    """The buffers that all connections of a server share: one for small frames, a few for large ones."""

    def __init__(self, keep: int = 4) -> None:
        self.shared = memoryview(bytearray(SHARED_BUFFER_BYTES))
        self._free: list[bytearray] = []
        self._keep = keep

    def take(self) -> bytearray:
        """A buffer for a frame that does not fit the shared one."""
        return self._free.pop() if self._free else bytearray(POOLED_BUFFER_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        """Keep a pooled buffer for the next large frame."""
        if len(buffer) == POOLED_BUFFER_BYTES and len(self._free) < self._keep:
            self._free.append(buffer)


class Slot:
    """A request whose response is not there yet; it keeps its place in the order."""

    __slots__ = ("_connection", "done", "exclusive", "pieces")

    def __init__(self, connection: Connection, exclusive: bool) -> None:
        self._connection = connection
        self.exclusive = exclusive
        self.done = False
        self.pieces: list[Piece] = []

    @property
    def closed(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._connection.closed

    def answer(self, pieces: list[Piece] | None) -> None:
        """Give the response (None: there is none)."""
        if self.done:
            raise RuntimeError("a request is answered once")
        self.done = True
        if self._connection.closed:
            return
        if pieces:
            try:
                pin(pieces)
            except OSError as error:
                log.error("an answer's file cannot be opened: %s", error)
                self._connection.close()
                return
            self.pieces = pieces
        self._connection.slot_done(self)

    def abort(self) -> None:
        """Close the connection instead of answering, after what is owed before."""
        self.done = True
        self._connection.refuse()
        self._connection.slot_done(self)


def pin(pieces: Iterable[Piece]) -> None:
    """Keep the files behind the pieces open until they are sent; all of them or none."""
    pinned: list[Piece] = []
    try:
        for piece in pieces:
            if type(piece) is FileSlice:
                piece.file.pin()
                pinned.append(piece)
    except OSError:
        unpin(pinned)
        raise


def unpin(pieces: Iterable[Piece]) -> None:
    """Let go of the files behind pieces that will not be sent any more."""
    for piece in pieces:
        if type(piece) is FileSlice:
            piece.file.unpin()


class Connection:
    """A connected client on a plain-text listener."""

    __slots__ = (
        "_blocked",
        "_buffers",
        "_corked",
        "_dispatch",
        "_ending",
        "_gathered",
        "_held",
        "_large",
        "_large_filled",
        "_large_needed",
        "_loop",
        "_max_frame",
        "_muted",
        "_on_close",
        "_out",
        "_partial",
        "_resting",
        "_slots",
        "_sock",
        "_unsent",
        "_warmed",
        "_warming",
        "_watched",
        "_writing",
        "client_software",
        "closed",
        "fd",
        "id",
        "listener",
        "peer_host",
        "peer_port",
        "received_bytes",
        "sent_bytes",
        "state",
    )

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        connection_id: int,
        listener: str,
        peer: tuple[str, int],
        dispatch: Dispatch,
        buffers: ReceiveBuffers,
        max_frame: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self.fd = sock.fileno()
        self.id = connection_id
        self.listener = listener
        self.peer_host, self.peer_port = peer
        self._dispatch = dispatch
        self._buffers = buffers
        self._max_frame = max_frame
        self._on_close = on_close
        self._partial = b""
        self._large: bytearray | None = None
        self._large_filled = 0
        self._large_needed = 0
        self._out: deque[Piece] = deque()
        self._gathered: bytearray | None = None
        """The last of what goes out, while more answers may join it."""
        self._slots: deque[Slot] = deque()
        self._unsent = 0
        self._blocked = False
        self._corked = False
        self._muted = False
        self._watched = False
        self._resting = False
        self._writing = False
        self._warming = False
        self._warmed: FileSlice | None = None
        self._held = False
        self._ending = False
        self.closed = False
        self.received_bytes = 0
        self.sent_bytes = 0
        self.client_software: tuple[str, str] | None = None
        self.state: object | None = None

    def start(self) -> None:
        """Begin to read."""
        self._read_on()

    # -- slots: answers that come later -------------------------------------------------

    def open_slot(self, *, exclusive: bool) -> Slot:
        """Hold a place for a later answer; an exclusive one holds back the requests behind it."""
        slot = Slot(self, exclusive)
        self._slots.append(slot)
        self._unsent += SLOT_BYTES
        if exclusive:
            self._blocked = True
        return slot

    def slot_done(self, slot: Slot) -> None:
        """Send what has become sendable and go on with requests that were held back."""
        slots = self._slots
        self._gathered = None
        while slots and slots[0].done:
            self._out.extend(slots.popleft().pieces)
        if slot.exclusive:
            self._blocked = False
        self._advance()

    def _advance(self) -> None:
        """Send what can be sent, serve the frames held back, and read on unless something holds us."""
        self._flush()
        while self._held and not self._stalled:
            self._held = False
            frames = memoryview(self._partial)
            self._partial = b""
            self._process(frames, len(frames))
            self._flush()
        if self._ending and not self._held and not self._out and not self._slots:
            self.close()
        elif self._ending or self._stalled:
            self._read_off()
        else:
            self._read_on()

    @property
    def _stalled(self) -> bool:
        behind_a_slot = self._unsent > MAX_UNSENT_BYTES and bool(self._slots)
        return self._blocked or self._resting or self._writing or self._warming or self.closed or behind_a_slot

    # -- reading ------------------------------------------------------------------------

    def _read_on(self) -> None:
        self._muted = False
        if not self._watched:
            self._watched = True
            self._loop.add_reader(self.fd, self._on_readable)

    def _read_off(self) -> None:
        # A client that waits for its answer sends nothing meanwhile: the socket stays watched until something comes,
        # which saves two system calls for every request that is parked.
        self._muted = True

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self.fd)

    def _on_readable(self) -> None:
        if self._muted:
            self._unwatch()
            return
        if self._large is not None:
            self._read_large(self._large)
            return
        shared = self._buffers.shared
        kept = len(self._partial)
        if kept:
            shared[:kept] = self._partial
            received = self._receive(shared[kept:])
        else:
            received = self._receive(shared)
        if received <= 0:
            return
        self._partial = b""
        self._process(shared, kept + received)
        self._advance()

    def _receive(self, into: memoryview) -> int:
        try:
            received = self._sock.recv_into(into)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.close()
            return -1
        if received == 0:
            self.finish()
            return -1
        self.received_bytes += received
        return received

    def _process(self, view: memoryview, total: int) -> None:
        dispatch = self._dispatch
        try:
            frames, consumed, needed = split(view, 0, total, self._max_frame)
            turn_ends = monotonic() + TURN_SECONDS if len(frames) > FRAMES_BETWEEN_LOOKS else 0.0
            for number, (start, end) in enumerate(frames, 1):
                if number % FRAMES_BETWEEN_LOOKS == 0 and monotonic() > turn_ends:
                    self._rest()
                if self._blocked or self._resting or self._unsent > MAX_UNSENT_BYTES:
                    consumed = start - 4
                    needed = 0
                    self._held = True
                    break
                reply = dispatch(self, view, start, end)
                if type(reply) is bytes and not self._slots:
                    gathered = self._gathered
                    if gathered is None:
                        gathered = self._gathered = bytearray()
                        self._out.append(gathered)
                    gathered += reply
                    self._unsent += len(reply)
                elif isinstance(reply, bytes):
                    self._queue([reply])
                elif reply is not None and reply is not PENDING:
                    self._queue(reply)
                if self.closed:
                    return
        except KafkaError:
            self.refuse()
            return
        except Exception:
            log.exception("a request of connection %d failed", self.id)
            self.refuse()
            return
        if consumed == total:
            return
        if needed < 0:  # a bad size behind good frames
            self.refuse()
        elif needed > SHARED_BUFFER_BYTES:
            self._large = self._buffers.take()
            self._large_needed = needed
            self._large_filled = total - consumed
            self._large[: self._large_filled] = view[consumed:total]
        else:
            self._partial = bytes(view[consumed:total])

    def _rest(self) -> None:
        """Go on with what has come already when the others have had their turn."""
        self._resting = True
        self._loop.call_soon(self._rested)

    def _rested(self) -> None:
        self._resting = False
        if not self.closed:
            self._advance()

    def _queue(self, reply: list[Piece]) -> None:
        """Send an answer after those before it."""
        files = False
        for piece in reply:
            if type(piece) is FileSlice:
                files = True
            else:
                self._unsent += len(piece)
        if files:
            pin(reply)
        if self._slots:
            slot = Slot(self, exclusive=False)
            slot.done = True
            slot.pieces = reply
            self._slots.append(slot)
        else:
            self._gathered = None
            self._out.extend(reply)

    def _read_large(self, buffer: bytearray) -> None:
        filled, needed = self._large_filled, self._large_needed
        if filled == len(buffer):
            # Grow with the bytes that came, so that a frame's announced size alone costs nothing.
            grown = bytearray(min(2 * len(buffer), needed))
            grown[:filled] = buffer
            self._large = buffer = grown
        with memoryview(buffer) as view:
            received = self._receive(view[filled : min(needed, len(buffer))])
            if received <= 0:
                return
            self._large_filled = filled + received
            if self._large_filled < needed:
                return
            self._large = None
            self._process(view[:needed], needed)
        self._buffers.give_back(buffer)
        self._advance()

    # -- writing ------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._writing or self._warming or self.closed:
            return
        out = self._out
        try:
            while out:
                if not self._send_bytes():
                    return
                if out and type(head := out[0]) is FileSlice and not self._send_file(head):
                    return
            self._uncork()
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
        except OSError:
            self.close()
        else:
            if not self._slots:
                self._unsent = 0

    def _send_bytes(self) -> bool:
        """Send what is bytes, or as good as bytes, up to the next large slice of a file."""
        out = self._out
        self._gathered = None
        run: list[bytes | bytearray | memoryview] = []
        size = 0
        while out and size < RUN_BYTES:
            head = out[0]
            if type(head) is FileSlice:
                read = read_cached(head) if head.length <= SMALL_SLICE_BYTES else None
                if read is None:
                    break
                head.file.unpin()
                run.append(read)
            else:
                run.append(head)  # type: ignore[arg-type]
            size += len(head)
            out.popleft()
        if not run:
            return True
        data = run[0] if len(run) == 1 else b"".join(run)
        more = socket.MSG_MORE if out else 0
        try:
            sent = self._sock.send(data, more)
        except (BlockingIOError, InterruptedError):
            sent = 0
        self.sent_bytes += sent
        if sent == len(data):
            return True
        out.appendleft(memoryview(data)[sent:])
        self._wait_writable()
        return False

    def _send_file(self, piece: FileSlice) -> bool:
        fd = piece.file.fileno()
        if piece is not self._warmed and not cached(fd, piece.position, piece.length):
            self._warm(piece)
            return False
        if len(self._out) > 1 and not self._corked:
            self._cork()
        sent = os.sendfile(self.fd, fd, piece.position, piece.length)
        if sent == 0 and piece.length:
            self.close()  # the file is shorter than it was: the announced length cannot be kept
            return False
        self.sent_bytes += sent
        if sent == piece.length:
            self._out.popleft()
            piece.file.unpin()
        else:
            self._out[0] = self._warmed = FileSlice(piece.file, piece.position + sent, piece.length - sent)
        return True

    def _cork(self) -> None:
        """Let what follows a file share its last segment, instead of waking the reader once more."""
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        self._corked = True

    def _uncork(self) -> None:
        if self._corked:
            self._corked = False
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def _wait_writable(self) -> None:
        self._writing = True
        self._loop.add_writer(self.fd, self._on_writable)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self.fd)
        self._writing = False
        self._advance()

    def _warm(self, piece: FileSlice) -> None:
        """Read a cold range in a thread, so that sendfile does not hold the loop."""
        self._uncork()
        self._warming = True
        piece.file.pin()
        future = self._loop.run_in_executor(None, warm, piece.file.fileno(), piece.position, piece.length)

        def warmed(future: asyncio.Future[None]) -> None:
            if not future.cancelled():
                future.exception()  # sending will meet it again
            piece.file.unpin()
            self._warming = False
            self._warmed = piece
            if not self.closed:
                self._advance()

        future.add_done_callback(warmed)

    # -- closing ------------------------------------------------------------------------

    def finish(self) -> None:
        """Read no more, and close when all that was asked is answered."""
        self._ending = True
        self._advance()

    def refuse(self) -> None:
        """Serve nothing more, not even what has come already, and close when all that is owed is sent."""
        self._partial = b""
        self._held = False
        self.finish()

    def close(self) -> None:
        """Drop the connection and everything not yet sent."""
        if self.closed:
            return
        self.closed = True
        self._unwatch()
        if self._writing:
            self._loop.remove_writer(self.fd)
        unpin(self._out)
        for slot in self._slots:
            if slot.done:
                unpin(slot.pieces)
        self._out.clear()
        self._slots.clear()
        self._partial = b""
        self._large = None
        self._sock.close()
        self._on_close(self)


def cached(fd: int, position: int, length: int) -> bool:
    """Whether a range of a file is in the page cache, by probing a byte here and there."""
    probe = [bytearray(1)]
    try:
        for at in range(position, position + length, PROBE_STEP):
            os.preadv(fd, probe, at, os.RWF_NOWAIT)
        os.preadv(fd, probe, position + length - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return True  # this file system cannot tell: let sendfile try
        raise
    return True


def read_cached(piece: FileSlice) -> bytearray | None:
    """A slice's bytes if they are all in the page cache."""
    data = bytearray(piece.length)
    try:
        return data if os.preadv(piece.file.fileno(), [data], piece.position, os.RWF_NOWAIT) == len(data) else None
    except OSError:
        return None  # not cached, or not readable: the ordinary way will see


def warm(fd: int, position: int, length: int) -> None:
    """Bring a range of a file into the page cache (runs in a thread)."""
    scratch = bytearray(min(length, 1 << 20))
    end = position + length
    while position < end:
        got = os.preadv(fd, [memoryview(scratch)[: min(len(scratch), end - position)]], position)
        if got <= 0:
            return
        position += got
