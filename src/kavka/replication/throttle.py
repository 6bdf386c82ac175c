"""Limits on the bytes that replication may move (KIP-73), as Kafka measures them: over a few fixed windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

UNLIMITED: Final = (1 << 63) - 1
ALL: Final = "*"


class Throttle:
    """A rate of bytes per second that may be exceeded once, and then has to be waited for."""

    __slots__ = ("_samples", "_window_ms", "_windows", "rate")

    def __init__(self, rate: int = UNLIMITED, windows: int = 11, window_ms: int = 1000) -> None:
        self.rate = rate
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[tuple[int, int]] = deque()  # start of a window, bytes in it

    def record(self, size: int, now_ms: int) -> None:
        """So many bytes were moved."""
        samples = self._samples
        self._forget(now_ms)
        if samples and now_ms - samples[-1][0] < self._window_ms:
            start, known = samples[-1]
            samples[-1] = start, known + size
        else:
            samples.append((now_ms, size))

    def exceeded(self, now_ms: int) -> bool:
        """Whether more than the rate was moved of late."""
        if self.rate >= UNLIMITED:
            return False
        self._forget(now_ms)
        if not self._samples:
            return False
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return sum(size for _, size in self._samples) * 1000 > self.rate * elapsed_ms

    def _forget(self, now_ms: int) -> None:
        oldest = now_ms - self._windows * self._window_ms
        while self._samples and self._samples[0][0] <= oldest:
            self._samples.popleft()


def throttled(replicas: Iterable[str], partition: int, node_id: int) -> bool:
    """Whether a topic's list of throttled replicas (`*`, or partition:broker pairs) has a partition of this node."""
    wanted = f"{partition}:{node_id}"
    return any(one in (ALL, wanted) for one in replicas)
