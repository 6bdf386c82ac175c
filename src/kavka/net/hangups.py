"""Peers that are gone: uvloop does not tell of a reset that arrives amid data, so something else has to.

libuv reports an error on a polled descriptor as a status that uvloop drops, and polls it no more. An epoll of our own
that watches for nothing but errors and hang-ups is given to the loop as one more descriptor: it costs two system calls
per connection, none per request, and tells at once.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Final

ERRORS_ALONE: Final = 0  # epoll reports errors and hang-ups unasked
REPORTS_AT_ONCE: Final = 64


class HangUps:
    """Watches the sockets of a server for peers that are gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[], None]] = {}
        loop.add_reader(self._epoll.fileno(), self._on_report)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back, once, when the peer of a socket is gone."""
        self._epoll.register(fd, ERRORS_ALONE)
        self._watched[fd] = callback

    def forget(self, fd: int) -> None:
        """Watch a socket no more; to be called before it is closed."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Watch nothing any more."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _on_report(self) -> None:
        for fd, _ in self._epoll.poll(0, REPORTS_AT_ONCE):
            callback = self._watched.get(fd)
            if callback is not None:  # else the report before has closed this one too
                self.forget(fd)
                callback()
