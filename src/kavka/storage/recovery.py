"""Making a segment agree with itself again: keep its sound batches, cut the rest, rebuild its indexes."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.kernels.batches import BatchInfo
from kavka.model.errors import KafkaError
from kavka.storage.config import LogConfig
from kavka.storage.epochs import LeaderEpochs
from kavka.storage.producer_state import ProducerStates
from kavka.storage.replay import replay_batch
from kavka.storage.scan import BatchScan
from kavka.storage.segment import MAX_RELATIVE_OFFSET, Segment
from kavka.storage.txn_index import AbortedTransaction

_TAIL_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery found in a segment: where its batches end, and what was cut there and why."""

    next_offset: int
    cut_bytes: int
    reason: str | None


def recover_segment(
    segment: Segment, producers: ProducerStates, epochs: LeaderEpochs | None, config: LogConfig
) -> Recovered:
    """Check every batch, cut at the first unsound one, and rebuild the indexes.

    `producers` is the state at the segment's start and becomes the state at its end.
    """
    segment.begin_rebuild()
    next_offset = segment.base_offset
    end = 0
    scan = BatchScan(segment.file, 0, segment.file.size(), check_crc=True)
    reason = None
    for start, chunk, batches in scan:
        for batch in batches:
            reason = _misplaced(segment, batch, next_offset) or _replayed(segment, producers, chunk, batch)
            if reason is not None:
                break
            segment.rebuild(batch, start + batch.position, config)
            if epochs is not None and batch.leader_epoch > epochs.latest:
                epochs.assign(batch.leader_epoch, batch.base_offset)
            next_offset = batch.last_offset + 1
            end = start + batch.position + batch.size
        if reason is not None:
            break
    cut = segment.end_rebuild(end)
    return Recovered(next_offset, cut, (reason or scan.reason) if cut else None)


def next_offset_of(segment: Segment) -> int | None:
    """The offset after a segment's last batch, by the headers after its last index entry; None if those are unsound."""
    if segment.size == 0:
        return segment.base_offset
    _, position = segment.offset_index.last()
    scan = BatchScan(segment.file, position, segment.size, chunk_bytes=_TAIL_CHUNK_BYTES)
    last: BatchInfo | None = None
    for _, _, batches in scan:
        last = batches[-1]
    if scan.reason is not None or last is None or last.base_offset < segment.base_offset:
        return None
    return last.last_offset + 1


def scan_epochs(segment: Segment, epochs: LeaderEpochs) -> None:
    """Find the leader epochs of a segment in its batches."""
    for _, _, batches in BatchScan(segment.file, 0, segment.size):
        for batch in batches:
            if batch.leader_epoch > epochs.latest:
                epochs.assign(batch.leader_epoch, batch.base_offset)


def _misplaced(segment: Segment, batch: BatchInfo, next_offset: int) -> str | None:
    if batch.base_offset < next_offset or batch.last_offset_delta < 0:
        return f"offset {batch.base_offset} comes after {next_offset - 1}"
    if batch.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return f"offset {batch.last_offset} is too far from the segment's start"
    return None


def _replayed(segment: Segment, producers: ProducerStates, chunk: bytes, batch: BatchInfo) -> str | None:
    """Apply a batch to the producers and the transaction index; says what is wrong if it cannot be."""
    try:
        for completed, last_stable_offset in replay_batch(producers, chunk, batch):
            if completed.aborted:
                segment.txn_index.append(
                    AbortedTransaction(
                        completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
                    )
                )
    except KafkaError as error:
        return str(error)
    return None
