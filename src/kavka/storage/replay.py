"""Bringing producer state up to an offset: the newest usable snapshot, then the batches after it."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.kernels.batches import BatchInfo
from kavka.model.errors import KafkaStorageError
from kavka.storage import files
from kavka.storage.disk import Disk
from kavka.storage.producer_snapshot import decode_snapshot, encode_snapshot
from kavka.storage.producer_state import (
    AppendOrigin,
    CompletedTransaction,
    PreparedAppend,
    ProducerStates,
    is_expired,
)
from kavka.storage.scan import BatchScan, read_marker
from kavka.storage.segment import Segment


def snapshot_path(directory: str, offset: int) -> str:
    """Where the snapshot of an offset is."""
    return f"{directory}/{files.file_name(offset, files.SNAPSHOT)}"


def write_snapshot(disk: Disk, directory: str, producers: ProducerStates, offset: int) -> str | None:
    """Write the state at an offset unless a snapshot is that new already; returns the path to force."""
    if offset <= (producers.snapshots[-1] if producers.snapshots else 0):
        return None
    path = snapshot_path(directory, offset)
    disk.write_file(path, encode_snapshot(producers))
    producers.snapshots.append(offset)
    return path


def drop_snapshots(disk: Disk, directory: str, producers: ProducerStates, keep_from: int, keep_to: int) -> None:
    """Remove the snapshots outside (keep_from, keep_to]."""
    kept = []
    for offset in producers.snapshots:
        if keep_from < offset <= keep_to:
            kept.append(offset)
        else:
            disk.unlink(snapshot_path(directory, offset))
    producers.snapshots = kept


def load_snapshot(
    disk: Disk, directory: str, producers: ProducerStates, now_ms: int, expiration_ms: int, damaged: list[str]
) -> int | None:
    """Start from the newest snapshot that can be read; returns its offset. Unreadable ones are removed and named."""
    while producers.snapshots:
        offset = producers.snapshots[-1]
        path = snapshot_path(directory, offset)
        try:
            entries = decode_snapshot(disk.read_file(path))
        except (KafkaStorageError, FileNotFoundError) as error:
            damaged.append(f"{path}: {error}")
            disk.unlink(path)
            producers.snapshots.pop()
            continue
        producers.restore(entry for entry in entries if not is_expired(entry, now_ms, expiration_ms))
        return offset
    producers.clear()
    return None


def replay_batch(producers: ProducerStates, data: bytes, batch: BatchInfo) -> list[tuple[CompletedTransaction, int]]:
    """Apply a batch that is in the log; returns the transactions it ends with their last stable offsets."""
    if batch.producer_id < 0:
        return []
    prepared = PreparedAppend()
    producers.prepare(batch, batch.base_offset, AppendOrigin.REPLICATION, prepared, lambda: read_marker(data, batch))
    return producers.commit(prepared)


def replay_segments(
    disk: Disk, directory: str, producers: ProducerStates, segments: Sequence[Segment], start: int, end: int
) -> None:
    """Apply the batches of [start, end); the last two segments get a snapshot at their start if they have none."""
    snapshot_at = {segment.base_offset for segment in segments[-2:]}
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end
        if following <= start or segment.base_offset >= end:
            continue
        if segment.base_offset in snapshot_at and segment.base_offset > start:
            write_snapshot(disk, directory, producers, segment.base_offset)
        first = segment.find(max(start, segment.base_offset))
        if first is None:
            continue
        for _, chunk, batches in BatchScan(segment.file, first.position, segment.size):
            for batch in batches:
                if batch.base_offset >= end:
                    return
                replay_batch(producers, chunk, batch)
