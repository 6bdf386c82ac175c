"""What of a log can be copied to a tier, and the files that go along: the leader's side of tiering."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from kavka.model.errors import KafkaStorageError
from kavka.replica.unified_log import UnifiedLog
from kavka.storage import files
from kavka.storage.checkpoint import encode_epochs
from kavka.storage.disk import DiskFile
from kavka.storage.log import Log
from kavka.storage.producer_snapshot import encode_snapshot
from kavka.storage.producer_state import ProducerStates
from kavka.storage.replay import load_snapshot, replay_segments, snapshot_path
from kavka.storage.segment import Segment
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.segments import Readable

FOREVER_MS = 1 << 62


class Sealed(NamedTuple):
    """A segment that takes no writes any more and whose every record is decided."""

    start_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    epochs: tuple[tuple[int, int], ...]
    """The leader epochs in it; the first starts where the segment does."""


class Offload:
    """The files of a segment, which stay readable until they are released, also when the log lets them go."""

    def __init__(self, parts: Mapping[Part, Readable | bytes], pinned: list[DiskFile]) -> None:
        self.parts = parts
        self._pinned = pinned

    @property
    def has_aborted(self) -> bool:
        """Whether transactions were aborted in it."""
        return Part.TXN_INDEX in self.parts

    def release(self) -> None:
        """Give the files back."""
        for file in self._pinned:
            file.unpin()
        self._pinned = []


def next_sealed(log: UnifiedLog, from_offset: int) -> Sealed | None:
    """The first segment from an offset on that may be copied: one that ends before the last stable offset."""
    local_log, stable = log.log, log.last_stable_offset
    segments = local_log.segments_from(max(from_offset, local_log.log_start_offset))
    for segment, following in pairwise(segments):
        end = following.base_offset
        if end <= from_offset or segment.size == 0:
            continue
        return _sealed(local_log, segment, end) if end <= stable else None
    return None


def lag(log: UnifiedLog, from_offset: int) -> tuple[int, int]:
    """How many sealed segments, and bytes in them, from an offset on are not copied yet."""
    waiting = [segment for segment in log.log.segments_from(from_offset)[:-1] if segment.size]
    return len(waiting), sum(segment.size for segment in waiting)


def open_segment(log: UnifiedLog, sealed: Sealed) -> Offload:
    """The files of a segment; KafkaStorageError if it is gone, or cannot be read."""
    local_log = log.log
    segment = local_log.segment_of(sealed.start_offset)
    if segment is None or segment.base_offset != sealed.start_offset or segment.size != sealed.size_bytes:
        raise KafkaStorageError(f"{local_log.topic_partition} has no segment {sealed.start_offset} any more")
    pinned: list[DiskFile] = []
    parts: dict[Part, Readable | bytes] = {}
    try:
        for part, file in _files_of(local_log, segment).items():
            file.pin()
            pinned.append(file)
            parts[part] = file
        after = sealed.end_offset + 1
        parts[Part.PRODUCER_SNAPSHOT] = _producers_at(local_log, after)
        history = [entry for entry in local_log.epochs.entries if entry[1] < after]
        parts[Part.LEADER_EPOCHS] = encode_epochs(history)
    except OSError as error:
        Offload(parts, pinned).release()
        raise KafkaStorageError(f"cannot open {segment.file.path}: {error}") from error
    return Offload(parts, pinned)


def _sealed(log: Log, segment: Segment, end: int) -> Sealed:
    start = segment.base_offset
    entries = [entry for entry in log.epochs.entries if entry[1] < end]
    first = next((epoch for epoch, begins in reversed(entries) if begins <= start), None)
    within = tuple(entry for entry in entries if entry[1] > start)
    epochs = within if first is None else ((first, start), *within)
    return Sealed(start, end - 1, segment.size, segment.largest_timestamp_ms, epochs)


def _files_of(log: Log, segment: Segment) -> dict[Part, DiskFile]:
    disk = log.disk
    found = {
        Part.LOG: segment.file,
        Part.OFFSET_INDEX: disk.file(segment.path_of(files.INDEX)),
        Part.TIME_INDEX: disk.file(segment.path_of(files.TIME_INDEX)),
    }
    aborted = segment.path_of(files.TXN_INDEX)
    if disk.exists(aborted) and disk.size(aborted):
        found[Part.TXN_INDEX] = disk.file(aborted)
    return found


def _producers_at(log: Log, offset: int) -> bytes:
    """The producers' state at the start of a segment: what was written when it began, else worked out again."""
    path = snapshot_path(log.path, offset)
    if log.disk.exists(path):
        return log.disk.read_file(path)
    producers = ProducerStates(log.topic_partition)
    producers.snapshots = [known for known in log.producers.snapshots if known <= offset]
    start = load_snapshot(log.disk, log.path, producers, 0, FOREVER_MS, damaged=[])
    before = [segment for segment in log.segments if segment.base_offset < offset]
    begin = start if start is not None else before[0].base_offset
    replay_segments(log.disk, log.path, producers, before, begin, offset)
    return encode_snapshot(producers)
