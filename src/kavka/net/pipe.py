"""A connection within one process: no socket, and nothing happens but what the loop or a simulated network lets happen.

The server's end is a transport like the others; the client's takes what `client.dial` asks of a connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kavka.model.types import FileSlice, Piece
from kavka.net.transport import END, Owner, unpin

WINDOW_BYTES: Final = 256 * 1024
"""How much may be on its way to a client; what is behind that waits, as in a socket."""
UPDATE_BYTES: Final = WINDOW_BYTES // 2
"""How much a client takes before it says that there is room again."""
CHUNK_BYTES: Final = 64 * 1024

Carry = Callable[[Callable[[], object]], object]
"""Calls a function when what it brings has arrived: never at once, perhaps never at all, and in the order in which it
was asked to. `loop.call_soon` is a network that loses no time."""


class ClientEnd:
    """What a client writes to; what comes for it goes to its receiver."""

    __slots__ = ("_carry", "_closed", "_receiver", "_server", "_taken")

    def __init__(self, receiver: asyncio.BufferedProtocol, server: ServerEnd, carry: Carry) -> None:
        self._receiver = receiver
        self._server = server
        self._carry = carry
        self._closed = False
        self._taken = 0

    def write(self, data: bytes | bytearray | memoryview, /) -> None:
        """Send bytes on their way."""
        if not self._closed:
            self._carry(partial(self._server.arrived, bytes(data)))

    def abort(self) -> None:
        """Be gone; what was written before still arrives."""
        if not self._closed:
            self._closed = True
            self._carry(self._server.hung_up)

    def arrived(self, data: bytes) -> None:
        """Let the receiver have what the server sent."""
        view = memoryview(data)
        while view and not self._closed:
            room = memoryview(self._receiver.get_buffer(len(view)))
            taken = min(len(room), len(view))
            room[:taken] = view[:taken]
            self._receiver.buffer_updated(taken)
            view = view[taken:]
        self._taken += len(data)
        if self._taken >= UPDATE_BYTES:
            self._carry(partial(self._server.taken, self._taken))
            self._taken = 0

    def ended(self) -> None:
        """The server has closed."""
        if not self._closed:
            self._closed = True
            self._receiver.connection_lost(None)


class ServerEnd:
    """The transport of a connection that has no socket; files are read as they are sent, from the disk if need be."""

    __slots__ = (
        "_carry",
        "_client",
        "_closed",
        "_gone",
        "_incoming",
        "_loop",
        "_on_its_way",
        "_owner",
        "_paused",
        "_telling",
        "busy",
        "out",
        "received_bytes",
        "sent_bytes",
    )

    _client: ClientEnd
    _owner: Owner

    def __init__(self, loop: asyncio.AbstractEventLoop, carry: Carry) -> None:
        self._loop = loop
        self._carry = carry
        self._incoming: deque[memoryview] = deque()
        self._on_its_way = 0
        self._paused = True
        self._telling = False
        self._gone = False
        self._closed = False
        self.out: deque[Piece] = deque()
        self.busy = False
        self.received_bytes = 0
        self.sent_bytes = 0

    def open(self, owner: Owner) -> None:
        """Begin to read for an owner."""
        self._owner = owner
        self.read_on()
        if self._gone:
            self._loop.call_soon(self.hung_up)

    @property
    def left(self) -> bool:
        """Whether the client has gone; its server is told at once."""
        return self._closed

    # -- in -----------------------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        """Take what the client sent."""
        if not self._closed and data:
            self._incoming.append(memoryview(data))
            if not self._telling:
                self._told()  # what is carried never arrives amid the owner's own work

    def hung_up(self) -> None:
        """The client has gone; whoever accepts it later is told then."""
        self._gone = True
        if not self._closed and hasattr(self, "_owner"):
            self._owner.on_hang_up()

    def read_on(self) -> None:
        """Tell the owner of what comes, and of what has come meanwhile."""
        self._paused = False
        self._tell()

    def read_off(self) -> None:
        """Keep what comes."""
        self._paused = True

    def _tell(self) -> None:
        if self._incoming and not self._telling:
            self._telling = True
            self._loop.call_soon(self._told)

    def _told(self) -> None:
        self._telling = False
        if not self._closed and not self._paused:
            self._owner.on_readable()
            self._tell()

    def receive_into(self, view: memoryview) -> int:
        """Receive what has arrived."""
        if self._closed:
            return END
        received = 0
        while self._incoming and received < len(view):
            head = self._incoming.popleft()
            taken = min(len(head), len(view) - received)
            view[received : received + taken] = head[:taken]
            received += taken
            if taken < len(head):
                self._incoming.appendleft(head[taken:])
        self.received_bytes += received
        return received

    # -- out ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Send as much on its way as the client has room for."""
        out = self.out
        while out and not self._closed:
            self.busy = self._on_its_way >= WINDOW_BYTES
            if self.busy:
                return
            data = self._next_chunk()
            self._on_its_way += len(data)
            self.sent_bytes += len(data)
            self._carry(partial(self._client.arrived, data))

    def _next_chunk(self) -> bytes:
        piece = self.out[0]
        size = min(len(piece), CHUNK_BYTES)
        if not isinstance(piece, FileSlice):
            return self._gathered()
        try:
            data = piece.file.read_at(piece.position, size)
        except OSError:
            data = b""
        if len(data) < size:
            self._owner.close()  # the file is shorter than it was: the announced length cannot be kept
            return b""
        if size < piece.length:
            self.out[0] = FileSlice(piece.file, piece.position + size, piece.length - size)
        else:
            self.out.popleft()
            piece.file.unpin()
        return data

    def _gathered(self) -> bytes:
        """What comes before the next file, together, as one write to a socket has it."""
        gathered, size = [], 0
        while self.out and size < CHUNK_BYTES and not isinstance(piece := self.out[0], FileSlice):
            self.out.popleft()
            gathered.append(piece)
            size += len(piece)
        return b"".join(gathered)

    def taken(self, size: int) -> None:
        """The client has room again."""
        self._on_its_way -= size
        if self.busy and self._on_its_way < WINDOW_BYTES and not self._closed:
            self.busy = False
            self._owner.on_writable()

    def close(self) -> None:
        """Drop the connection and what is not sent; what is on its way still arrives."""
        if self._closed:
            return
        self._closed = True
        unpin(self.out)
        self.out.clear()
        self._incoming.clear()
        self._carry(self._client.ended)


def pipe(
    receiver: asyncio.BufferedProtocol,
    to_server: Carry | None = None,
    to_client: Carry | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> tuple[ClientEnd, ServerEnd]:
    """Both ends of a connection, and what carries the bytes each way; the loop is the server's, if it has its own."""
    loop = loop or asyncio.get_running_loop()
    server = ServerEnd(loop, to_client or loop.call_soon)
    client = ClientEnd(receiver, server, to_server or loop.call_soon)
    server._client = client
    return client, server
