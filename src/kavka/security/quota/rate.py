"""Rates and token buckets that count as Kafka's do, to the millisecond: its clients and operators know these delays."""

from __future__ import annotations

from math import floor, inf
from typing import Final, NamedTuple

INT_MAX: Final = (1 << 31) - 1

_START, _LAST, _SUM = range(3)


class Windows(NamedTuple):
    """Over how long a rate is measured: so many samples, each of such a length."""

    samples: int = 11
    length_ms: int = 1000


def rounded(delay_ms: float) -> int:
    """A delay as Java rounds it, and as large as a response can say."""
    return min(floor(delay_ms + 0.5), INT_MAX)


class Rate:
    """What was used per second of late, with a bound.

    As in Kafka there is a sample for each window in which something was used, and one more, for the window that the
    measured time begins in; time without use counts from the oldest sample on, and at least all windows but one.
    """

    __slots__ = ("_at", "_bound", "_current", "_length_ms", "_ring", "_total", "_windows", "most", "used_ms")

    def __init__(self, bound: float, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        self._length_ms = windows.length_ms
        self._ring: list[list[float]] = []
        self._at = -1
        self._current = [-inf, -inf, 0.0]  # the first window begins with the first use
        self._total = 0.0
        """The sum of all samples, also of those that are too old and not forgotten yet."""
        self.used_ms = now_ms
        """When something was last counted."""
        self.bound = bound

    @property
    def bound(self) -> float:
        """What may be used per second."""
        return self._bound

    @bound.setter
    def bound(self, bound: float) -> None:
        samples, length_ms = self._windows
        self._bound = bound
        self.most = bound * (samples - 1) * length_ms / 1000
        """The most that can be used at once without a delay that is certain."""

    def has_room(self, value: float) -> bool:
        """Whether so much can be used without a delay for certain, whatever of what was used is too old to count."""
        return self._total + value <= self.most

    def use(self, value: float, now_ms: int) -> int:
        """Count something, and say for how long nothing more may be used; 0 if the rate is not above its bound."""
        # `record` once more: most requests of clients with quotas come by here
        self.used_ms = now_ms
        total = self._total = self._total + value
        sample = self._current
        if now_ms - sample[_START] >= self._length_ms:
            sample = self._advance(now_ms)
            total = self._total
        sample[_SUM] += value
        sample[_LAST] = now_ms
        return 0 if total <= self.most else self.throttle_ms(now_ms)

    def record(self, value: float, now_ms: int) -> None:
        """Count something."""
        self.used_ms = now_ms
        self._total += value
        sample = self._current
        if now_ms - sample[_START] >= self._length_ms:
            sample = self._advance(now_ms)
        sample[_SUM] += value
        sample[_LAST] = now_ms

    def _advance(self, now_ms: int) -> list[float]:
        ring = self._ring
        self._at = (self._at + 1) % (self._windows.samples + 1)
        if self._at == len(ring):
            ring.append([now_ms, now_ms, 0.0])
        else:
            self._forget(ring[self._at], now_ms)
        self._current = ring[self._at]
        return self._current

    def _forget(self, sample: list[float], now_ms: int) -> None:
        self._total -= sample[_SUM]
        sample[:] = (now_ms, now_ms, 0.0)

    def throttle_ms(self, now_ms: int) -> int:
        """How long nothing may be used until the rate is the bound again; 0 if it is not above."""
        if self._total <= self.most:  # whatever of it is too old, and however long it took
            return 0
        bound = self._bound
        if bound <= 0:
            return INT_MAX
        window_ms = self.window_ms(now_ms)
        rate = sum(sample[_SUM] for sample in self._ring) / (window_ms / 1000)
        return 0 if rate <= bound else rounded((rate - bound) / bound * window_ms)

    def window_ms(self, now_ms: int) -> int:
        """Over how long the rate is measured now; forgets what is too old."""
        samples, length_ms = self._windows
        expired = now_ms - samples * length_ms
        oldest: float = now_ms
        for sample in self._ring:
            if sample[_LAST] <= expired:
                self._forget(sample, now_ms)
            elif sample[_START] < oldest:
                oldest = sample[_START]
        elapsed_ms = now_ms - int(oldest)
        missing = samples - 1 - elapsed_ms // length_ms
        return max(elapsed_ms + max(missing, 0) * length_ms, 1)

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        window_ms = self.window_ms(now_ms)
        return sum(sample[_SUM] for sample in self._ring) / (window_ms / 1000)


class TokenBucket:
    """Tokens that come back at a rate: whoever finds some may take more than there are, once (KIP-599)."""

    __slots__ = ("_tokens", "_updated_ms", "_windows", "bound", "used_ms")

    def __init__(self, bound: float, windows: Windows, now_ms: int) -> None:
        self.bound = bound
        self._windows = windows
        self._tokens = self._burst
        self._updated_ms = now_ms
        self.used_ms = now_ms

    @property
    def _burst(self) -> float:
        samples, length_ms = self._windows
        return samples * (length_ms / 1000) * self.bound

    def _refill(self, now_ms: int) -> None:
        self._tokens = min(self._burst, self._tokens + self.bound * ((now_ms - self._updated_ms) / 1000))
        self._updated_ms = now_ms

    def take(self, tokens: float, now_ms: int) -> None:
        """Take tokens, also such as are not there."""
        self.used_ms = now_ms
        self._refill(now_ms)
        self._tokens = min(self._burst, self._tokens - tokens)

    def throttle_ms(self, now_ms: int) -> int:
        """How long it takes until no token is owed any more."""
        self._refill(now_ms)
        return 0 if self._tokens >= 0 else rounded(-self._tokens / self.bound * 1000)
