"""How many connections a node takes, and how fast: in all, by listener and by address (pure counting, no socket)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kavka.net.memory import DEFAULT_BYTES
from kavka.security.quota.rate import Rate, Windows

NO_LIMIT: Final = 2**31 - 1
USUAL_WINDOWS: Final = Windows()
IDLE_MS: Final = 3_600_000
"""After so long without a connection it is forgotten how fast an address connects."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The configured caps."""

    total: int = NO_LIMIT
    per_host: int = NO_LIMIT
    per_host_overrides: Mapping[str, int] = field(default_factory=dict)
    max_frame_bytes: int = 104_857_600
    cap_of: Callable[[int], int] | None = None
    """The most bytes of a frame by the key of its API, where not all may be as large."""
    queued_bytes: int = DEFAULT_BYTES
    idle_ms: int = 600_000
    per_listener: Mapping[str, int] = field(default_factory=dict)
    rate: int = NO_LIMIT
    """New connections a second (KIP-612), those of the protected listener aside."""
    listener_rates: Mapping[str, int] = field(default_factory=dict)
    host_rates: Mapping[str | None, int] = field(default_factory=dict)
    """By address; under None that of addresses which have none of their own."""
    protected: str = ""
    """The listener that the node's own limits do not concern: brokers among themselves, if they have it for them."""
    windows: Windows = USUAL_WINDOWS

    def for_host(self, host: str) -> int:
        """The cap for one address."""
        return self.per_host_overrides.get(host, self.per_host)

    def rate_for_host(self, host: str) -> int:
        """How many connections a second one address may open."""
        return self.host_rates.get(host, self.host_rates.get(None, NO_LIMIT))


class ConnectionCount:
    """The connections that are open now, and how fast new ones came."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._per_host: dict[str, int] = {}
        self._per_listener: dict[str, int] = {}
        self._rates = ConnectionRates()
        self.total = 0

    def full(self, listener: str) -> bool:
        """Whether another connection would go over the cap of a listener or of the node."""
        limits = self.limits
        if self._per_listener.get(listener, 0) >= limits.per_listener.get(listener, NO_LIMIT):
            return True
        return self.total >= limits.total and listener != limits.protected

    def arrived(self, listener: str, now_ms: int) -> int:
        """Count a new connection; for how many milliseconds it has to wait before it is served."""
        limits = self.limits
        delay_ms = self._rates.count(
            ("listener", listener), limits.listener_rates.get(listener, NO_LIMIT), limits.windows, now_ms
        )
        if listener != limits.protected:
            delay_ms = max(delay_ms, self._rates.count(("broker", ""), limits.rate, limits.windows, now_ms))
        return delay_ms

    def too_fast(self, listener: str, host: str, now_ms: int) -> int:
        """Count a new connection of an address; for how long it is kept before it is closed, 0 if it is served."""
        limits = self.limits
        delay_ms = self._rates.count(("host", host), limits.rate_for_host(host), limits.windows, now_ms)
        if delay_ms > 0:
            self._rates.uncount(("host", host), now_ms)
            self._rates.uncount(("listener", listener), now_ms)
            if listener != limits.protected:
                self._rates.uncount(("broker", ""), now_ms)
        return delay_ms

    def admit(self, host: str, listener: str) -> bool:
        """Count a new connection in, unless its address has its share already."""
        count = self._per_host.get(host, 0)
        if count >= self.limits.for_host(host):
            return False
        self._per_host[host] = count + 1
        self._per_listener[listener] = self._per_listener.get(listener, 0) + 1
        self.total += 1
        return True

    def release(self, host: str, listener: str) -> None:
        """Count a connection out."""
        for counts, key in ((self._per_host, host), (self._per_listener, listener)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
        self.total -= 1

    def forget_idle(self, now_ms: int) -> None:
        """Forget how fast addresses connect that have not done so for long."""
        self._rates.forget_idle(now_ms)


class ConnectionRates:
    """How fast connections came, wherever that is limited."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], Rate] = {}

    def count(self, key: tuple[str, str], limit: int, windows: Windows, now_ms: int) -> int:
        """Count a connection; how long it takes to be within the limit, a window at most."""
        if limit >= NO_LIMIT:
            self._rates.pop(key, None)
            return 0
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = Rate(limit, windows, now_ms)
        rate.bound = limit
        return min(rate.use(1, now_ms), windows.length_ms)

    def uncount(self, key: tuple[str, str], now_ms: int) -> None:
        """Take back a connection that is not served."""
        rate = self._rates.get(key)
        if rate is not None:
            rate.record(-1, now_ms)

    def forget_idle(self, now_ms: int) -> None:
        """Forget what has not been used for long."""
        for key in [key for key, rate in self._rates.items() if rate.used_ms <= now_ms - IDLE_MS]:
            del self._rates[key]
