"""Virtual time: things happen in the order of their times, and all that is left to chance comes from one seed."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any, Final

STANDSTILL_EVENTS: Final = 100_000
"""So many events in one millisecond are a loop without end."""

Action = Callable[..., Any]


class World:
    """A clock that jumps from one event to the next."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_ms = 0
        self.events = 0
        self._began = 0
        self._agenda: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def at(self, when_ms: int, action: Action, *arguments: Any) -> None:
        """Do something at a time, which may not be over."""
        heapq.heappush(self._agenda, (max(when_ms, self.now_ms), next(self._numbers), action, arguments))

    def after(self, delay_ms: int, action: Action, *arguments: Any) -> None:
        """Do something in a while."""
        self.at(self.now_ms + delay_ms, action, *arguments)

    def run_until(self, when_ms: int) -> None:
        """Let everything happen that is due up to a time."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= when_ms:
            due_ms, _, action, arguments = heapq.heappop(agenda)
            if due_ms > self.now_ms:
                self.now_ms, self._began = due_ms, self.events
            elif self.events - self._began > STANDSTILL_EVENTS:
                raise RuntimeError(f"time stands still at {self.now_ms} ms, last with {action}")
            self.events += 1
            action(*arguments)
        self.now_ms = when_ms

    def between(self, low: int, high: int) -> int:
        """A whole number by chance, both ends included."""
        return self.random.randint(low, high)

    def chance(self, probability: float) -> bool:
        """Whether something happens that does so in this share of cases."""
        return self.random.random() < probability
