"""Bulk work beside everybody else: at a rate while others are served, without a limit while they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 0.002
"""So long nobody else may have asked for anything: then bulk work does not wait."""


class Backseat:
    """Where requests that move much data wait for their turn."""

    def __init__(self, bytes_per_second: Callable[[], int]) -> None:
        self._rate = bytes_per_second
        self._served: Callable[[], int] = int
        self._own = 0
        self._own_at = 0
        self._others = 0
        self._busy_at = 0.0
        self._free_at = 0.0
        self._line = asyncio.Lock()
        self.waits = 0
        """How often somebody had to wait."""

    def beside(self, served: Callable[[], int]) -> None:
        """Give way while a count goes up: that of all requests."""
        self._served = served

    def own(self) -> None:
        """The request that is being served is one of those that give way."""
        total = self._served()
        if total != self._own_at:  # one that has several parts is one all the same
            self._own, self._own_at = self._own + 1, total

    async def turn(self, size: int) -> None:
        """Wait until so many bytes may be moved."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        starts = max(self._free_at, now)
        self._free_at = starts + size / self._rate()
        if starts <= now:
            return
        if self._is_alone(now):
            self._free_at = now
            return
        self.waits += 1
        async with self._line:  # the first of those who wait looks for all of them
            while (left := starts - loop.time()) > 0:
                await asyncio.sleep(min(left, LOOK_SECONDS))
                if self._is_alone(loop.time()):
                    self._free_at = loop.time()
                    return

    def _is_alone(self, now: float) -> bool:
        others = self._served() - self._own
        if others != self._others:
            self._others, self._busy_at = others, now
        return now - self._busy_at >= LOOK_SECONDS
