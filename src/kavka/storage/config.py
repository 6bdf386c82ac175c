"""What a log needs to know of its topic's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

_DAY_MS = 86_400_000
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
INHERITED = -2
"""A local limit that is the same as the one of the whole partition."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one log, with Kafka's defaults; logs of topics without overrides share one object."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_size_max_bytes: int = 10 << 20
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    local_retention_ms: int = INHERITED
    local_retention_bytes: int = INHERITED
    compact: bool = False
    delete: bool = True
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    delete_retention_ms: int = _DAY_MS
    min_cleanable_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    max_message_bytes: int = (1 << 20) + 12
    preallocate: bool = False
    producer_id_expiration_ms: int = _DAY_MS

    roll_ms: int = field(init=False, repr=False, compare=False)
    """How long a segment takes writes: a compacted log rolls early enough to honour its maximum lag."""

    def __post_init__(self) -> None:
        early = self.compact and self.max_compaction_lag_ms > 0
        roll_ms = min(self.max_compaction_lag_ms, self.segment_ms) if early else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)

    @property
    def local(self) -> LogConfig:
        """The same, with the limits of what stays on this disk of a log that has a tier behind it."""
        for_ms, for_bytes = self.local_retention_ms, self.local_retention_bytes
        return replace(
            self,
            retention_ms=self.retention_ms if for_ms == INHERITED else for_ms,
            retention_bytes=self.retention_bytes if for_bytes == INHERITED else for_bytes,
        )
