"""A played world for the runtime: time that jumps, a partition in memory, a machine that does as it is told."""

from __future__ import annotations

import asyncio
import selectors
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kavka.model.clock import ManualClock

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """A selector that does not wait: the clock goes on instead."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout:
            self._clock.advance(max(1, round(timeout * 1000)))
        return found


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop on a manual clock: whoever sleeps wakes at once, at the right time."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(_Jumping(clock))
        self._manual = clock
        self._clock_resolution = 1e-6  # a smaller one is lost in the sum with a time of day

    def time(self) -> float:
        return self._manual.monotonic_ms() / 1000


@pytest.fixture
def clock() -> ManualClock:
    """The time of the test."""
    return ManualClock()


@pytest.fixture
def play(clock: ManualClock) -> Callable[[Coroutine[Any, Any, T]], T]:
    """Runs a coroutine to its end in played time."""

    def run(work: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=lambda: JumpingLoop(clock)) as runner:
            return runner.run(work)

    return run
