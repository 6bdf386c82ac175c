"""Plain text on a socket: files leave with sendfile, and an answer shares its segments with the next."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from kavka.model.types import FileSlice
from kavka.net import page_cache
from kavka.net.hangups import HangUps
from kavka.net.session import Session
from kavka.net.sockets import SocketTransport
from kavka.net.transport import END, Transport

SMALL_SLICE_BYTES: Final = 16 * 1024
"""Up to here a slice of a file is read and goes out with its neighbours: a system call each for many small ones."""
RUN_BYTES: Final = 256 * 1024
"""About how much is put together for one send."""


class PlainTransport(SocketTransport):
    """The bytes of a connection as they are."""

    __slots__ = ("_corked", "_warmed")

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, hangups: HangUps) -> None:
        super().__init__(loop, sock, hangups)
        self._corked = False
        self._warmed: FileSlice | None = None
        """A slice that need not be looked for in the page cache again."""

    def receive_into(self, view: memoryview) -> int:
        """Receive what is there."""
        try:
            received = self._sock.recv_into(view)
        except (BlockingIOError, InterruptedError):
            return 0
        if received == 0:
            return END
        self.received_bytes += received
        return received

    def flush(self) -> None:
        """Send what the socket takes and the page cache has."""
        if self.busy:
            return
        out = self.out
        try:
            while out:
                if not self._send_bytes():
                    return
                if out and type(head := out[0]) is FileSlice and not self._send_file(head):
                    return
            if self._corked:
                self._uncork()
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
        except OSError:
            self._owner.close()

    def _send_bytes(self) -> bool:
        """Send what is bytes, or as good as bytes, up to the next large slice of a file."""
        out = self.out
        run: list[bytes | bytearray | memoryview] = []
        size = 0
        while out and size < RUN_BYTES:
            head = out[0]
            if type(head) is FileSlice:
                read = page_cache.read_cached(head) if head.length <= SMALL_SLICE_BYTES else None
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
        if piece is not self._warmed and not page_cache.cached(fd, piece.position, piece.length):
            self._uncork()
            self._warmed = piece  # once it has waited it is sent, cached or not
            self._wait_for_disk(piece)
            return False
        if len(self.out) > 1 and not self._corked:
            self._cork()
        sent = os.sendfile(self.fd, fd, piece.position, piece.length)
        if sent == 0 and piece.length:
            self._owner.close()  # the file is shorter than it was: the announced length cannot be kept
            return False
        self.sent_bytes += sent
        if sent == piece.length:
            self.out.popleft()
            piece.file.unpin()
        else:
            self.out[0] = self._warmed = FileSlice(piece.file, piece.position + sent, piece.length - sent)
        return True

    def _cork(self) -> None:
        """Let what follows a file share its last segment, instead of waking the reader once more."""
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        self._corked = True

    def _uncork(self) -> None:
        if self._corked:
            self._corked = False
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def plain(loop: asyncio.AbstractEventLoop, sock: socket.socket, hangups: HangUps, session: Session) -> Transport:
    """Carry a connection as it is; whoever is behind it is anonymous."""
    return PlainTransport(loop, sock, hangups)
