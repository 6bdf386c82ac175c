"""One listening socket: lets connections in as fast as the limits allow, and never waits in doing so."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from kavka.model.clock import Clock
from kavka.net.limits import ConnectionCount

logger = logging.getLogger(__name__)

ACCEPTS_PER_CALLBACK: Final = 64
PAUSE_SECONDS: Final = 1.0

Address = tuple[str, int]


class Acceptor:
    """Accepts the connections of one listener, while it is on and there is room."""

    __slots__ = (
        "_accepting",
        "_admit",
        "_clock",
        "_count",
        "_held",
        "_loop",
        "_on",
        "_resume",
        "delayed",
        "full",
        "name",
        "socket",
    )

    def __init__(
        self,
        name: str,
        sock: socket.socket,
        count: ConnectionCount,
        clock: Clock,
        admit: Callable[[socket.socket, Address], None],
    ) -> None:
        self.name = name
        self.socket = sock
        self._count = count
        self._clock = clock
        self._admit = admit
        self._loop = asyncio.get_running_loop()
        self._on = False
        self._accepting = False
        self._resume: asyncio.TimerHandle | None = None
        self._held: tuple[socket.socket, Address] | None = None
        self.full = False
        """Whether newcomers wait in the backlog until somebody leaves."""
        self.delayed = 0
        """How many connections came faster than they may."""

    def on(self) -> None:
        """Accept."""
        self._on = True
        self._watch()

    def off(self) -> None:
        """Accept nobody until told to; who came too fast and was still to be let in is not."""
        self._on = self.full = False
        self._unwatch()
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._held is not None:
            self._held[0].close()
            self._held = None

    def room(self) -> None:
        """Go on after having been full, if there is room again."""
        if self.full and not self._count.full(self.name):
            self.full = False
            self._watch()

    def _watch(self) -> None:
        if self._on and not self._accepting and not self.full and self._resume is None:
            self._accepting = True
            self._loop.add_reader(self.socket.fileno(), self._on_acceptable)

    def _unwatch(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self.socket.fileno())

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_CALLBACK):
            if self._count.full(self.name):
                # Kafka's rule for the caps of a node and of a listener: newcomers wait until somebody leaves.
                logger.warning(
                    "max.connections reached (%d open): listener %s accepts again when one closes",
                    self._count.total,
                    self.name,
                )
                self.full = True
                self._unwatch()
                return
            try:
                sock, address = self.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("listener %s: accept failed: %s; retrying in %gs", self.name, error, PAUSE_SECONDS)
                self._pause(PAUSE_SECONDS)
                return
            delay_ms = self._count.arrived(self.name, self._clock.monotonic_ms())
            if delay_ms > 0:
                self.delayed += 1
                self._held = sock, address
                self._pause(delay_ms / 1000)
                return
            self._admit(sock, address)

    def _pause(self, seconds: float) -> None:
        self._unwatch()
        self._resume = self._loop.call_later(seconds, self._resumed)

    def _resumed(self) -> None:
        self._resume = None
        held, self._held = self._held, None
        if held is not None:
            self._admit(*held)
        self._watch()
