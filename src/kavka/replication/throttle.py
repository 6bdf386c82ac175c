"""Limits on the bytes that replication may move (KIP-73), as Kafka measures them: over a few fixed windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

UNLIMITED: Final = (1 << 63) - 1
ALL: Final = "*"


class _Sample(NamedTuple):
    """A window of time, and how many bytes were moved in it."""

    start_ms: int
    size: int


class Throttle:
    """A rate of bytes per second that may be exceeded once, and then has to be waited for."""

    __slots__ = ("_samples", "_window_ms", "_windows", "rate")

    def __init__(self, rate: int = UNLIMITED, windows: int = 11, window_ms: int = 1000) -> None:
        self.rate = rate
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[_Sample] = deque()

    def record(self, size: int, now_ms: int) -> None:
        """So many bytes were moved."""
        samples = self._samples
        self._forget(now_ms)
        if samples and now_ms - samples[-1].start_ms < self._window_ms:
            start, known = samples[-1]
            samples[-1] = _Sample(start, known + size)
        else:
            samples.append(_Sample(now_ms, size))

    def exceeded(self, now_ms: int) -> bool:
        """Whether more than the rate was moved recently."""
        if self.rate >= UNLIMITED:
            return False
        self._forget(now_ms)
        if not self._samples:
            return False
        elapsed_ms = max(now_ms - self._samples[0].start_ms, self._window_ms)
        return sum(size for _, size in self._samples) * 1000 > self.rate * elapsed_ms

    def _forget(self, now_ms: int) -> None:
        oldest = now_ms - self._windows * self._window_ms
        while self._samples and self._samples[0].start_ms <= oldest:
            self._samples.popleft()


def throttled(replicas: Iterable[str], partition: int, node_id: int) -> bool:
    """Whether a topic's list of throttled replicas (`*`, or partition:broker pairs) has a partition of this node."""
    wanted = f"{partition}:{node_id}"
    return any(replica in (ALL, wanted) for replica in replicas)
