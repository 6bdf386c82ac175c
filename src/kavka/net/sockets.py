"""What every transport on a socket does alike: watch it, wait for it and for the disk, and close it."""

from __future__ import annotations

import asyncio
import select
import socket
from collections import deque
from collections.abc import Callable

from kavka.model.types import FileSlice, Piece
from kavka.net import page_cache
from kavka.net.hangups import HangUps
from kavka.net.session import Session
from kavka.net.transport import Owner, Transport, unpin


class SocketTransport:
    """A transport on a non-blocking socket that is ours; how bytes are received and sent is up to each kind."""

    __slots__ = (
        "_hangups",
        "_loop",
        "_owner",
        "_paused",
        "_sock",
        "_watched",
        "_writing",
        "busy",
        "closed",
        "fd",
        "out",
        "received_bytes",
        "sent_bytes",
    )

    _owner: Owner

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, hangups: HangUps) -> None:
        self._loop = loop
        self._sock = sock
        self._hangups = hangups
        self._paused = False
        self._watched = False
        self._writing = False
        self.fd = sock.fileno()
        self.out: deque[Piece] = deque()
        self.busy = False
        self.closed = False
        self.received_bytes = 0
        self.sent_bytes = 0

    def open(self, owner: Owner) -> None:
        """Begin to read for an owner."""
        self._owner = owner
        self._hangups.watch(self.fd, owner.on_hang_up)
        self.read_on()

    @property
    def left(self) -> bool:
        """Whether the peer has closed its side."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self.fd, select.POLLRDHUP)
        return bool(poll.poll(0))

    def receive_into(self, view: memoryview) -> int:
        """Up to each kind."""
        raise NotImplementedError

    def flush(self) -> None:
        """Up to each kind."""
        raise NotImplementedError

    # -- watching -----------------------------------------------------------------------

    def read_on(self) -> None:
        """Tell the owner of what comes."""
        self._paused = False
        if not self._watched:
            self._watched = True
            self._loop.add_reader(self.fd, self._on_readable)

    def read_off(self) -> None:
        """Leave what comes in the socket."""
        # A client that waits for its answer sends nothing meanwhile: the socket stays watched until something comes,
        # which saves two system calls for every request that is parked.
        self._paused = True

    def _on_readable(self) -> None:
        if self._paused:
            self._unwatch()
        else:
            self._owner.on_readable()

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self.fd)

    # -- waiting ------------------------------------------------------------------------

    def _wait_writable(self) -> None:
        self.busy = self._writing = True
        self._loop.add_writer(self.fd, self._on_writable)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self.fd)
        self.busy = self._writing = False
        self._owner.on_writable()

    def _wait_for_disk(self, piece: FileSlice) -> None:
        """Have a thread bring a cold range into the page cache, so that reading it does not hold the loop."""
        self.busy = True
        piece.file.pin()
        future = self._loop.run_in_executor(None, page_cache.warm, piece.file.fileno(), piece.position, piece.length)

        def warmed(future: asyncio.Future[None]) -> None:
            if not future.cancelled():
                future.exception()  # sending will meet it again
            piece.file.unpin()
            self.busy = False
            if not self.closed:
                self._owner.on_writable()

        future.add_done_callback(warmed)

    # -- closing ------------------------------------------------------------------------

    def close(self) -> None:
        """Drop the connection and what is not sent."""
        if self.closed:
            return
        self.closed = True
        self._unwatch()
        if self._writing:
            self._loop.remove_writer(self.fd)
        unpin(self.out)
        self.out.clear()
        self._hangups.forget(self.fd)
        self._sock.close()


Secure = Callable[[asyncio.AbstractEventLoop, socket.socket, HangUps, Session], Transport]
"""How the connections of a listener are carried; a certificate changes the session's principal."""
