"""Connections whose clients nobody has let in yet: each has a while for it, and there are only so many.

When there are too many the oldest gives way: a client that means it is through within some round trips, so that the
oldest is one that stalls. All have the same while, so that their order is that of their ends, and one timer serves all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Final, Protocol

logger = logging.getLogger(__name__)

DROPPED_AT_ONCE: Final = 100


class PendingConnection(Protocol):
    """What can be in a lobby."""

    def close(self) -> None:
        """Drop the connection."""


class NewConnection(PendingConnection, Protocol):
    """A connection that says when it is gone."""

    def when_closed(self, key: Hashable, callback: Callable[[], None]) -> None:
        """Have a function called once it closes."""


class Lobby:
    """The connections of a listener that are on their way in."""

    def __init__(self, listener: str, timeout_ms: int, limit: int) -> None:
        self._listener = listener
        self._timeout = timeout_ms / 1000
        self._limit = limit
        self._waiting: dict[PendingConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.timed_out = 0
        """How many took too long."""
        self.crowded_out = 0
        """How many gave way to newcomers."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, connection: object) -> bool:
        return connection in self._waiting

    def welcome(self, connection: NewConnection) -> None:
        """Wait for a new client to be let in, or to go."""
        self.enter(connection)
        connection.when_closed(self, lambda: self.leave(connection))

    def enter(self, connection: PendingConnection) -> None:
        """Wait for a client to be let in; the oldest gives way where there is no room."""
        loop = asyncio.get_running_loop()
        if len(self._waiting) >= self._limit:
            self.crowded_out += 1
            if self.crowded_out.bit_count() == 1:  # a flood is told of less and less often
                logger.warning(
                    "listener %s: %d connections are authenticating and none gets on: closing the oldest (%d so far)",
                    self._listener,
                    self._limit,
                    self.crowded_out,
                )
            self._drop_oldest()
        self._waiting[connection] = loop.time() + self._timeout
        if self._timer is None:
            self._timer = loop.call_later(self._timeout, self._on_timer)

    def leave(self, connection: PendingConnection) -> None:
        """A client is let in, or gone."""
        self._waiting.pop(connection, None)

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        oldest.close()

    def _on_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now = loop.time()
        for _ in range(DROPPED_AT_ONCE):
            if not self._waiting:
                return
            ends = next(iter(self._waiting.values()))
            if ends > now:
                self._timer = loop.call_at(ends, self._on_timer)
                return
            self.timed_out += 1
            self._drop_oldest()
        self._timer = loop.call_later(0, self._on_timer)
