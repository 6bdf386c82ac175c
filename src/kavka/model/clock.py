"""Time as a value: the only pure module that may import `time`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where drivers read the time; machines are told it."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch: what records carry."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back: what timeouts are measured with."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time it was last set to."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """The same time: a manual clock never goes back."""
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Move forward."""
        if ms < 0:
            raise ValueError("a clock does not go back")
        self._now_ms += ms
