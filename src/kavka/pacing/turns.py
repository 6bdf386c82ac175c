"""Work that costs much, some at a time: the handshakes of newcomers leave the loop to those who are in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

TURN_SECONDS: Final = 0.005
"""How much of one turn of the loop is spent on it."""

Work = Callable[[], None]


class Turns:
    """The share that such work has of each turn of the loop, for lines that are served one after the other."""

    def __init__(self, turn_seconds: float = TURN_SECONDS) -> None:
        self._share = turn_seconds
        self._spent = 0.0
        self._lines: deque[Line] = deque()
        """Those in which somebody waits, the next first."""
        self._scheduled = False

    def line(self) -> Line:
        """A line of its own: however long the others are, its turn comes after one of each."""
        return Line(self)

    def take(self, line: Line, work: Work) -> None:
        """Do some work now or in a later turn of the loop, in the order of coming within its line."""
        if line.waiting or self._spent >= self._share:
            if not line.waiting:
                self._lines.append(line)
            line.waiting.append(work)
        else:
            self._do(work)
        self._schedule()

    def _do(self, work: Work) -> None:
        began = perf_counter()
        work()
        self._spent += perf_counter() - began

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        self._spent = 0.0
        while self._lines and self._spent < self._share:
            line = self._lines.popleft()
            work = line.waiting.popleft()
            if line.waiting:
                self._lines.append(line)
            self._do(work)
        if self._lines or self._spent:
            self._schedule()


class Line:
    """The work of one listener."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.waiting: deque[Work] = deque()

    def take(self, work: Work) -> None:
        """Do some work now or in a later turn of the loop, in the order of coming."""
        self._turns.take(self, work)
