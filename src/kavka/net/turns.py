"""Work that costs much, some at a time: the handshakes of newcomers leave the loop to those who are in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

TURN_SECONDS: Final = 0.005
"""How much of one turn of the loop is spent on it."""


class Turns:
    """Does what it is given at once, unless this turn of the loop has had its share already."""

    def __init__(self, turn_seconds: float = TURN_SECONDS) -> None:
        self._share = turn_seconds
        self._spent = 0.0
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def take(self, work: Callable[[], None]) -> None:
        """Do some work now or in a later turn, in the order of coming."""
        if self._waiting or self._spent >= self._share:
            self._waiting.append(work)
        else:
            self._do(work)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _do(self, work: Callable[[], None]) -> None:
        began = perf_counter()
        work()
        self._spent += perf_counter() - began

    def _next_turn(self) -> None:
        self._scheduled = False
        self._spent = 0.0
        while self._waiting and self._spent < self._share:
            self._do(self._waiting.popleft())
        if self._waiting or self._spent:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)
