"""Time on the event loop, given back in time."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_SECONDS: Final = 0.008


class Turn:
    """A piece of long work's time on the loop."""

    __slots__ = ("_ends", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + SLICE_SECONDS

    async def breathe(self) -> None:
        """Let others run if this has taken long enough; a request goes on when it has a turn in the lane."""
        if self._loop.time() >= self._ends:
            await asyncio.sleep(0)
            self._ends = self._loop.time() + SLICE_SECONDS


async def paced(steps: Generator[None, None, T]) -> T:
    """What a generator comes to, a slice at a time."""
    turn = Turn()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        await turn.breathe()
