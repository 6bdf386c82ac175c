"""Every timer of a node's coordinators, behind one timer of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from kavka.pacing.turn import SLICE_SECONDS

MANY: Final = 64
"""Cancelled timers stay where they are until there are more than this, and more than half of all."""


class Timer:
    """One timer that was set."""

    __slots__ = ("_timers", "call")

    def __init__(self, timers: Timers, call: Callable[[], None]) -> None:
        self._timers = timers
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Never call, if it has not been called yet."""
        if self.call is not None:
            self.call = None
            self._timers.cancelled()


class Timers:
    """A heap of timers; those that are due together run in slices, so that the loop is never held."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Timer]] = []
        self._number = 0
        self._dead = 0
        self._handle: asyncio.Handle | None = None
        self._armed_for = 0.0
        self._running = False

    def __len__(self) -> int:
        return len(self._heap) - self._dead

    def set(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """Call after a delay; timers of one time in the order in which they were set."""
        at = self._loop.time() + max(delay_ms, 0) / 1000
        timer = Timer(self, call)
        self._number += 1
        heappush(self._heap, (at, self._number, timer))
        if not self._running and (self._handle is None or at < self._armed_for):
            self._arm(at)
        return timer

    def cancelled(self) -> None:
        """One of the timers will not be called."""
        self._dead += 1
        if self._dead > MANY and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapify(self._heap)
            self._dead = 0

    def _arm(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_for = at
        self._handle = self._loop.call_at(at, self._run)

    def _run(self) -> None:
        self._handle = None
        self._running = True
        try:
            self._run_due(self._loop.time())
        finally:
            self._running = False
            if self._heap:
                self._arm(self._heap[0][0])

    def _run_due(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            timer = heappop(self._heap)[2]
            call, timer.call = timer.call, None
            if call is None:
                self._dead -= 1
                continue
            call()
            if self._loop.time() - now > SLICE_SECONDS:
                return
