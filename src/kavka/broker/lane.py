"""Long requests' share of the loop: a slice at a time, whoever's it is, and as long a rest after each.

However many clients send long requests, the loop has one slice of them in a turn, and at least half of its time is
everybody else's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Final, TypeVar

from kavka.model.errors import MalformedMessage

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
LONGEST_REST_SECONDS: Final = 0.05
AT_ONCE: Final = 2
"""How many long requests are in memory as objects, which take many times their bytes; the others wait as they came."""


class Lane:
    """Where long requests wait for their turn."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turning = False
        self._began = 0.0
        self._places = asyncio.Semaphore(AT_ONCE)

    async def turn(self) -> None:
        """Let the others run, and wait for the next turn."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        if not self._turning:
            self._turning = True
            loop.call_soon(self._next)
        await waiter

    @property
    def busy(self) -> bool:
        """Whether long requests are under way."""
        return self._turning

    async def enter(self) -> Place:
        """Wait until there is room for one more long request."""
        await self._places.acquire()
        return Place(self._places)

    async def run(self, steps: Generator[None, None, T], limit: int | None = None) -> T:
        """What a generator comes to, a slice at a time; raises MalformedMessage if it takes more than so many steps."""
        now = asyncio.get_running_loop().time
        ends, left = now() + SLICE_SECONDS, limit
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            if left is not None:
                left -= 1
                if left < 0:
                    raise MalformedMessage("there are too many items in the request")
            if now() >= ends:
                await self.turn()
                ends = now() + SLICE_SECONDS

    def _next(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                loop = asyncio.get_running_loop()
                self._began = loop.time()
                waiter.set_result(None)
                loop.call_soon(self._rest)  # runs right after the slice
                return
        self._turning = False

    def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        took = loop.time() - self._began
        loop.call_later(min(took, LONGEST_REST_SECONDS), self._next)


class Place:
    """Room for a long request, given back once."""

    __slots__ = ("_places",)

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def leave(self) -> None:
        """Let the next one in: this is done, or waits for something else than its turn."""
        if self._places is not None:
            self._places.release()
            self._places = None
