"""Requests that wait: one small object and one timer each, no task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Purgatory:
    """Runs woken waiters once per turn of the loop, so that appends of one turn are answered together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._woken: dict[Waiter, None] = {}
        self.parked = 0

    def wake(self, waiter: Waiter) -> None:
        """Let a waiter look again before the next turn."""
        if not self._woken:
            self._loop.call_soon(self._run)
        self._woken[waiter] = None

    def _run(self) -> None:
        woken, self._woken = self._woken, {}
        for waiter in woken:
            waiter.look(False)

    def park(self, wait_ms: int, attempt: Callable[[bool], bool]) -> Waiter:
        """Call `attempt(False)` on each wake until it is true, or `attempt(True)` when the time is up."""
        return Waiter(self, self._loop, wait_ms, attempt)


class Waiter:
    """One parked request."""

    __slots__ = ("_attempt", "_purgatory", "_timer")

    def __init__(
        self, purgatory: Purgatory, loop: asyncio.AbstractEventLoop, wait_ms: int, attempt: Callable[[bool], bool]
    ) -> None:
        self._purgatory = purgatory
        self._attempt: Callable[[bool], bool] | None = attempt
        self._timer = loop.call_later(wait_ms / 1000, self.look, True)
        purgatory.parked += 1

    def wake(self) -> None:
        """There may be news."""
        self._purgatory.wake(self)

    def look(self, last: bool) -> None:
        """Try to answer; a waiter that has answered or given up is inert."""
        attempt = self._attempt
        if attempt is None:
            return
        done = last
        try:
            done = attempt(last) or last
        except Exception:  # one request's fault: those woken with it still have to look
            logger.exception("a delayed operation failed")
            done = True
        if done:
            self.cancel()

    def cancel(self) -> None:
        """Forget the request."""
        if self._attempt is not None:
            self._attempt = None
            self._timer.cancel()
            self._purgatory.parked -= 1
