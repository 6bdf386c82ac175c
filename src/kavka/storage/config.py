"""What a log needs to know of its topic's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

_DAY_MS = 86_400_000
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


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
