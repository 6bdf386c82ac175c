"""Long requests' share of the loop: a slice at a time, whoever's it is, and a rest after it while others are served.

However many clients send long requests, the loop has one slice of them in a turn. While anybody else is served, two
thirds of its time are theirs. Those that are not very large wait for one slice of the very large ones at most, and have
places of their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import Final, TypeVar

from kavka.model.errors import MalformedMessage

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
RESTS: Final = 2.0
"""How long the others have the loop, in slices, if they use it."""
LONGEST_REST_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.001
"""So long nobody else may have asked for anything: then the rest is over."""
LARGE_BYTES: Final = 64 * 1024
AT_ONCE: Final = 2
"""How many of each class are in memory as objects, which take many times their bytes; the others wait as they came."""


class LaneClass(Enum):
    """Who waits together."""

    SMALL = "small"
    LARGE = "large"

    @staticmethod
    def of(size: int) -> LaneClass:
        """The class of a request of so many bytes."""
        return LaneClass.LARGE if size > LARGE_BYTES else LaneClass.SMALL


Waiting = asyncio.Future[None] | Callable[[], None]


class Lane:
    """Where long requests wait for their turn."""

    def __init__(self) -> None:
        self._waiting: dict[LaneClass, deque[Waiting]] = {kind: deque() for kind in LaneClass}
        self._places = {kind: asyncio.Semaphore(AT_ONCE) for kind in LaneClass}
        self._last = LaneClass.LARGE
        self._turning = False
        self._began = 0.0
        self._owed = 0.0
        self._rests_until = 0.0
        self._served: list[Callable[[], int]] = []
        self._served_before = 0

    def beside(self, served: Callable[[], int]) -> None:
        """Rest while a count goes up: that of the requests of those who shall not wait."""
        self._served.append(served)

    @property
    def busy(self) -> bool:
        """Whether long requests are under way."""
        return self._turning

    async def enter(self, kind: LaneClass) -> LanePermit:
        """Wait until there is room for one more long request."""
        places = self._places[kind]
        await places.acquire()
        return LanePermit(places)

    async def turn(self, kind: LaneClass) -> None:
        """Let the others run, and wait for the next turn."""
        waiter = asyncio.get_running_loop().create_future()
        self._wait(kind, waiter)
        await waiter

    def later(self, kind: LaneClass, work: Callable[[], None]) -> None:
        """Have a slice of work done in the next turn."""
        self._wait(kind, work)

    async def run(self, steps: Generator[None, None, T], kind: LaneClass, limit: int | None = None) -> T:
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
                await self.turn(kind)
                ends = now() + SLICE_SECONDS

    # -- turns --------------------------------------------------------------------------------

    def _wait(self, kind: LaneClass, waiting: Waiting) -> None:
        self._waiting[kind].append(waiting)
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        while (waiting := self._first()) is not None:
            if not isinstance(waiting, asyncio.Future):
                loop.call_soon(waiting)
            elif waiting.done():
                continue  # whoever it was has given up
            else:
                waiting.set_result(None)
            self._began = loop.time()
            loop.call_soon(self._rest)  # runs right after the slice
            return
        self._turning = False

    def _first(self) -> Waiting | None:
        """Who is next: the classes take turns where both wait."""
        other = LaneClass.SMALL if self._last is LaneClass.LARGE else LaneClass.LARGE
        for kind in (other, self._last):
            if self._waiting[kind]:
                self._last = kind
                return self._waiting[kind].popleft()
        return None

    def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._owed += RESTS * (now - self._began)
        if self._owed < LOOK_SECONDS:
            loop.call_soon(self._next)
            return
        self._rests_until = now + min(self._owed, LONGEST_REST_SECONDS)
        self._owed = 0.0
        self._served_before = self._count()
        loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        loop, served = asyncio.get_running_loop(), self._count()
        if served == self._served_before or loop.time() + LOOK_SECONDS > self._rests_until:
            self._next()
        else:
            self._served_before = served
            loop.call_later(LOOK_SECONDS, self._look)

    def _count(self) -> int:
        return sum(served() for served in self._served)


class LanePermit:
    """Room for a long request, given back once."""

    __slots__ = ("_places",)

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def leave(self) -> None:
        """Let the next one in: this is done, or waits for something else than its turn."""
        if self._places is not None:
            self._places.release()
            self._places = None
