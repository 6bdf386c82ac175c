"""Virtual time: things happen in the order of their times, and all that is left to chance comes from one seed."""

from __future__ import annotations

import gc
import heapq
import itertools
import logging
import random
import sys
import warnings
import zlib
from collections.abc import Callable
from typing import Any, Final, Self

MAX_EVENTS_PER_SECOND: Final = 400_000
"""More in one virtual second are a loop without end."""

Action = Callable[[], Any]


class ViolationError(AssertionError):
    """Something happened that must never happen."""


class World:
    """A clock that jumps from one event to the next; used in a `with` block, at whose end everything ends."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.events = 0
        self.digest = 0
        """A checksum of everything that happened, and when: two runs with the same one were the same."""
        self.at_the_end: list[Action] = []
        """What is done when the world ends."""
        self._agenda: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._second = 0
        self._events_before = 0

    def fail(self, what: str) -> None:
        """Give up: the run has shown a fault."""
        raise ViolationError(f"{what} (at {self.now:.3f} s of seed {self.seed})")

    def at(self, when: float, action: Action) -> None:
        """Do something at a time, which may not be over."""
        heapq.heappush(self._agenda, (when if when > self.now else self.now, next(self._numbers), action))

    def after(self, delay: float, action: Action) -> None:
        """Do something in a while."""
        self.at(self.now + delay, action)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The end: everything is let go of, wherever it stands; what it has to say about that is of no use."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            self._agenda.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for callback in self.at_the_end:
                    callback()
                self.at_the_end.clear()
                gc.collect()
        finally:
            sys.unraisablehook = hook
            logging.disable(level)

    def note(self, what: bytes) -> None:
        """Count something in that happened."""
        self.digest = zlib.crc32(what, self.digest)

    def run_until(self, when: float, enough: Callable[[], bool] | None = None) -> bool:
        """Let everything happen that is due up to a time, or until there was enough; whether there was."""
        agenda, next_ = self._agenda, heapq.heappop
        while agenda and agenda[0][0] <= when:
            if enough is not None and enough():
                return True
            self.now, _, action = next_(agenda)
            self.events += 1
            if self.now >= self._second:
                self._second, self._events_before = int(self.now) + 1, self.events
            elif self.events - self._events_before > MAX_EVENTS_PER_SECOND:
                raise RuntimeError(f"time stands still at {self.now:.6f} s of seed {self.seed}, last with {action}")
            action()
        if enough is not None and enough():
            return True
        self.now = max(self.now, when)
        return False

    def between(self, low: float, high: float) -> float:
        """A time by chance."""
        return self.random.uniform(low, high)

    def chance(self, probability: float) -> bool:
        """Whether something happens that does so in this share of cases."""
        return self.random.random() < probability
