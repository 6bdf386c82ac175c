"""How many connections a node takes: in all, and from one address (pure counting, no socket)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kavka.net.memory import DEFAULT_BYTES


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The configured caps."""

    total: int = 2**31 - 1
    per_host: int = 2**31 - 1
    per_host_overrides: Mapping[str, int] = field(default_factory=dict)
    max_frame_bytes: int = 104_857_600
    cap_of: Callable[[int], int] | None = None
    """The most bytes of a frame by the key of its API, where not all may be as large."""
    queued_bytes: int = DEFAULT_BYTES
    idle_ms: int = 600_000

    def for_host(self, host: str) -> int:
        """The cap for one address."""
        return self.per_host_overrides.get(host, self.per_host)


class ConnectionCount:
    """The connections that are open now."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._per_host: dict[str, int] = {}
        self.total = 0

    @property
    def full(self) -> bool:
        """Whether another connection would go over the total cap."""
        return self.total >= self.limits.total

    def admit(self, host: str) -> bool:
        """Count a new connection in, unless its address has its share already."""
        count = self._per_host.get(host, 0)
        if count >= self.limits.for_host(host):
            return False
        self._per_host[host] = count + 1
        self.total += 1
        return True

    def release(self, host: str) -> None:
        """Count a connection out."""
        count = self._per_host[host] - 1
        if count:
            self._per_host[host] = count
        else:
            del self._per_host[host]
        self.total -= 1
