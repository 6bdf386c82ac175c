"""Deciding what to compact, handing it out as a plan, and taking the result in.

Plan and take in on the thread that owns the log; run the plan anywhere (`compaction_worker` is a process for it).
"""

from __future__ import annotations

from dataclasses import dataclass

from kavka.model.settings.types import DOUBLE_MAX
from kavka.storage import files
from kavka.storage.compaction import CleanedGroup, CompactionPlan, CompactionResult, SourceSegment
from kavka.storage.log import Log
from kavka.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class Cleanable:
    """How dirty a compacted log is."""

    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool  # max.compaction.lag.ms is over for some dirty segment

    @property
    def ratio(self) -> float:
        """The part that compaction could look at anew."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def due(self) -> bool:
        """Whether to compact now."""
        return self.cleanable_bytes > 0 and (self.overdue or self.ratio > self.log.config.min_cleanable_ratio)


def assess(log: Log, clean_offset: int | None, high_watermark: int, now_ms: int) -> Cleanable:
    """How dirty a log is; `clean_offset` is its entry in the cleaner-offset checkpoint."""
    start = log.local_log_start_offset
    if clean_offset is None or not start <= clean_offset <= log.log_end_offset:
        clean_offset = start
    active = log.segments[-1]
    dirty = [segment for segment in log.segments_from(clean_offset) if segment is not active]
    limit = min(log.last_stable_offset(high_watermark), active.base_offset)
    if log.config.min_compaction_lag_ms > 0:
        newest = now_ms - log.config.min_compaction_lag_ms
        young = (segment.base_offset for segment in dirty if segment.largest_timestamp_ms > newest)
        limit = min(limit, next(young, limit))
    # A limit may lie inside a segment, and segments are cleaned whole.
    limit = log.segments_from(max(limit, clean_offset))[0].base_offset
    oldest = min((ts for segment in dirty if (ts := segment.first_batch_timestamp()) > 0), default=None)
    return Cleanable(
        log,
        clean_offset,
        limit,
        sum(segment.size for segment in log.segments if segment.base_offset < clean_offset),
        sum(segment.size for segment in dirty if segment.base_offset < limit),
        oldest is not None and oldest < now_ms - max(log.config.max_compaction_lag_ms, 0),
    )


def make_plan(
    cleanable: Cleanable, now_ms: int, dedupe_buffer_bytes: int, io_bytes_per_second: float = DOUBLE_MAX
) -> CompactionPlan:
    """What a worker needs in order to compact a log."""
    log = cleanable.log
    end = cleanable.first_uncleanable_offset
    sources = tuple(SourceSegment(s.base_offset, s.size) for s in log.segments if s.base_offset < end)
    for segment in log.segments:
        if segment.base_offset < end:
            segment.finish_indexes()
    return CompactionPlan(
        path=log.path,
        generation=log.generation,
        groups_limit_bytes=log.config.segment_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        index_size_max_bytes=log.config.index_size_max_bytes,
        delete_retention_ms=log.config.delete_retention_ms,
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        io_bytes_per_second=io_bytes_per_second,
        now_ms=now_ms,
        first_dirty_offset=cleanable.first_dirty_offset,
        first_uncleanable_offset=end,
        segments=sources,
        aborted=tuple(log.aborted_transactions(log.segments[0].base_offset, end)),
        last_offsets={entry.producer_id: (entry.last_offset, entry.producer_epoch) for entry in log.producers},
    )


def take_in(log: Log, plan: CompactionPlan, result: CompactionResult, now_ms: int) -> int | None:
    """Swap in what a worker wrote, unless the log has changed under it; returns the offset up to which it is clean.

    None if the log was cut meanwhile: then nothing is known to be clean.
    """
    sizes = {source.base_offset: source.size for source in plan.segments}
    whole = log.generation == plan.generation and log.path == plan.path
    for group in result.groups:
        old = [segment for segment in log.segments[:-1] if segment.base_offset in group.replaces]
        unchanged = len(old) == len(group.replaces) and all(s.size == sizes[s.base_offset] for s in old)
        if whole and unchanged:
            log.replace_segments(_cleaned(log, plan, group, now_ms), old, now_ms)
        else:
            _discard(log, plan, group.base_offset)
    return result.clean_offset if whole else None


def give_up(log: Log, plan: CompactionPlan) -> None:
    """Remove what a worker that failed may have written."""
    for source in plan.segments:
        _discard(log, plan, source.base_offset)


def _discard(log: Log, plan: CompactionPlan, base_offset: int) -> None:
    for kind in files.SEGMENT_KINDS:
        log.disk.unlink(f"{plan.path}/{files.file_name(base_offset, kind, files.CLEANED)}")


def _cleaned(log: Log, plan: CompactionPlan, group: CleanedGroup, now_ms: int) -> Segment:
    path = f"{plan.path}/{files.file_name(group.base_offset, files.LOG, files.CLEANED)}"
    return Segment(log.disk, log.disk.file(path), group.base_offset, group.size, now_ms)
