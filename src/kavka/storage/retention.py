"""Which segments a log no longer needs: by its start offset, by size, by age."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kavka.storage.config import LogConfig
from kavka.storage.segment import Segment


class ExpiredSegment(NamedTuple):
    """A segment to be deleted, and why."""

    segment: Segment
    reason: str


class RetentionView(NamedTuple):
    """What retention checks: the segments in order, and the offsets that bound what may be deleted."""

    segments: Sequence[Segment]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int


def before_log_start(view: RetentionView) -> list[ExpiredSegment]:
    """Segments whose every offset is before the log start."""
    bases = [segment.base_offset for segment in view.segments[1:]]
    return [
        ExpiredSegment(segment, f"it ends before the log start offset {view.log_start_offset}")
        for segment in _prefix(view, lambda number, _: number < len(bases) and bases[number] <= view.log_start_offset)
    ]


def over_size(view: RetentionView, config: LogConfig) -> list[ExpiredSegment]:
    """Segments without which the log is still at least retention.bytes long."""
    if config.retention_bytes < 0:
        return []
    excess = sum(segment.size for segment in view.segments) - config.retention_bytes
    expired = []
    for segment in _prefix(view, lambda _, __: True):
        excess -= segment.size
        if excess < 0:
            break
        expired.append(ExpiredSegment(segment, f"the log is larger than retention.bytes={config.retention_bytes}"))
    return expired


def over_age(view: RetentionView, config: LogConfig, now_ms: int) -> list[ExpiredSegment]:
    """Segments whose newest record is older than retention.ms."""
    if config.retention_ms < 0:
        return []
    return [
        ExpiredSegment(segment, f"its newest record is older than retention.ms={config.retention_ms}")
        for segment in _prefix(view, lambda _, segment: now_ms - segment.largest_timestamp_ms > config.retention_ms)
    ]


def in_tier(view: RetentionView, found: list[ExpiredSegment], tiered_end_offset: int) -> list[ExpiredSegment]:
    """Of the oldest segments, those that are in tiered storage whole."""
    ends = [*(segment.base_offset for segment in view.segments[1:]), view.log_end_offset]
    return [expired for expired, end in zip(found, ends, strict=False) if end <= tiered_end_offset]


def _prefix(view: RetentionView, condition: Callable[[int, Segment], bool]) -> list[Segment]:
    """The oldest segments that lie below the high watermark and meet a condition, up to the first that does not."""
    chosen = []
    count = len(view.segments)
    for number, segment in enumerate(view.segments):
        last = number + 1 == count
        end = view.log_end_offset if last else view.segments[number + 1].base_offset
        if end > view.high_watermark or (last and segment.size == 0) or not condition(number, segment):
            break
        chosen.append(segment)
    return chosen
