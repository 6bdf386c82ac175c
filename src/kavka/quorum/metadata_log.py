"""The metadata log on disk: its batches, its snapshots, and what its control records say. Decides nothing.

Synchronous but for the forcing, which its owner runs elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kavka.metadata.names import CLUSTER_METADATA
from kavka.metadata.records import decode_record
from kavka.model.errors import KafkaStorageError, UnknownServerError
from kavka.model.types import FileSlice, TopicPartition, Uuid
from kavka.quorum.format import METADATA_LOG
from kavka.quorum.snapshots import (
    MAX_BATCH_BYTES,
    Snapshot,
    SnapshotId,
    list_snapshots,
    read_snapshot,
    unfinished_snapshots,
)
from kavka.quorum.voters import change_of, changes_in, changes_of
from kavka.raft.messages import OffsetAndEpoch
from kavka.raft.voters import ControlChange, VoterHistory, VoterSet
from kavka.records.batch import TRUNCATED, Buffer, record_fields, scan, scan_prefix
from kavka.records.builder import BatchBuilder
from kavka.records.control import QuorumMessage, quorum_batch
from kavka.storage.disk import Disk
from kavka.storage.loader import LoadReport, load_log
from kavka.storage.log import AppendOrigin, Log, LogConfig
from kavka.storage.scan import BatchScan

logger = logging.getLogger(__name__)

PARTITION: Final = TopicPartition(CLUSTER_METADATA, 0)
KEPT_SNAPSHOTS: Final = 2
"""The newest, and one more in case it turns out to be damaged; the log goes back to the older of them."""
_REPLAY_RECORDS: Final = 2048


class Replayed(NamedTuple):
    """Records read back: the last is at `offset`, written in `epoch` at `timestamp_ms`; none if it was a control."""

    records: list[Any]
    offset: int
    epoch: int
    timestamp_ms: int


class MetadataLog:
    """The log of one node's metadata directory, from its newest sound snapshot on."""

    def __init__(self, disk: Disk, metadata_dir: str, config: LogConfig | None = None) -> None:
        self.path = f"{metadata_dir}/{METADATA_LOG}"
        self.snapshots: list[SnapshotId] = []
        """Those that are there and sound as far as is known, newest first."""
        self._disk = disk
        self._config = config or LogConfig(delete=False, max_message_bytes=MAX_BATCH_BYTES)
        self._log: Log | None = None
        self._loaded: Snapshot | None = None  # the newest one, until it was replayed
        self._counted_from = (-1, -1)  # the snapshot and the segment that has its end,
        self._not_counted = 0  # and how much of that segment is before it

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def log(self) -> Log:
        """The open log."""
        if self._log is None:
            raise KafkaStorageError(f"{self.path} is not open")
        return self._log

    @property
    def disk(self) -> Disk:
        """Where it is."""
        return self._disk

    @property
    def failed(self) -> str | None:
        """Why the log takes no more writes until it is opened again; None while it does."""
        return self.log.failed

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log.log_end_offset

    @property
    def durable_offset(self) -> int:
        """The offset before which everything is known to be on the device."""
        return self.log.recovery_point

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot; None if there is none but the formatted one."""
        return OffsetAndEpoch(*self.snapshots[0]) if self.snapshots and self.snapshots[0].offset else None

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The oldest snapshot, the one that the log begins with if it was cut; None as above."""
        return OffsetAndEpoch(*self.snapshots[-1]) if self.snapshots and self.snapshots[-1].offset else None

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or in the snapshot it begins with; 0 if there is none."""
        latest = self.log.epochs.latest
        if latest >= 0:
            return latest
        return self.snapshots[0].epoch if self.snapshots else 0

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch up to this one that wrote here, and where it ended."""
        found, end = self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)
        if end < 0:
            return OffsetAndEpoch(self.log.log_end_offset, self.last_epoch)
        return OffsetAndEpoch(end, found)

    def path_of(self, id_: SnapshotId) -> str:
        """Where a snapshot is."""
        return f"{self.path}/{id_.file_name}"

    # -- opening ------------------------------------------------------------------------------------

    def open(self, now_ms: int, *, clean: bool = False) -> LoadReport:
        """Open the log, or begin it; what was torn by an unclean stop is cut off. Raises KafkaStorageError."""
        self._disk.mkdir(self.path)
        for name in unfinished_snapshots(self._disk, self.path):
            self._disk.unlink(f"{self.path}/{name}")
        self._log, report = load_log(self._disk, self.path, PARTITION, self._config, clean=clean, now_ms=now_ms)
        self._log.assign_topic_id(Uuid.METADATA_TOPIC)
        self._choose_snapshot(report.notes, now_ms)
        return report

    def _choose_snapshot(self, notes: list[str], now_ms: int) -> None:
        """Begin with the newest snapshot that is sound; those that are not count as not there."""
        self._loaded = None
        self.snapshots = []
        log_, found = self.log, list_snapshots(self._disk, self.path)
        for id_ in found:
            if id_.offset < log_.log_start_offset:
                notes.append(f"{id_.file_name} ends before the log begins at {log_.log_start_offset}: passed over")
            elif self._loaded is None:
                try:
                    self._loaded = read_snapshot(self._disk, self.path_of(id_))
                except KafkaStorageError as error:
                    notes.append(f"{error}: passed over")
                else:
                    self.snapshots.append(id_)
            else:
                self.snapshots.append(id_)
        if self._loaded is None:
            if log_.log_start_offset or found:
                raise KafkaStorageError(f"{self.path} has no sound snapshot that its log continues")
            return
        newest = self.snapshots[0]
        if newest.offset > log_.log_end_offset or newest.epoch > max(log_.epochs.latest, 0):
            notes.append(f"the log ends before {newest.file_name}: goes on from there")
            log_.truncate_fully_and_start_at(newest.offset, now_ms=now_ms)

    def history(self, configured: VoterSet) -> VoterHistory:
        """The voters, by the snapshot and the control records after it, or else by the configuration."""
        start = self.snapshots[0].offset if self.snapshots else 0
        changes = changes_of(self._loaded.control, start - 1) if self._loaded is not None else []
        for chunk, batch in self._batches(start, self.log.log_end_offset):
            if batch.is_control:
                changes += changes_in(chunk, batch)
        return VoterHistory(configured, changes)

    def close(self, *, sync: bool = True) -> None:
        """Force everything to the disk and let go of it."""
        if self._log is not None:
            closing, self._log = self._log, None
            closing.close(sync=sync)

    def reopen(self, now_ms: int) -> None:
        """After the disk has failed: open again without what may not be on it; raises KafkaStorageError.

        After a failed forcing nobody knows what the disk has, so the rest is cut off and the cut is forced.
        """
        durable = self.log.recovery_point
        self.close(sync=False)
        self.open(now_ms)
        if self.log.log_end_offset < durable:
            raise KafkaStorageError(f"{self.path} ends at {self.log.log_end_offset}, but {durable} was on the disk")
        self.cut_from(durable, now_ms)
        self.log.sync()

    # -- reading -------------------------------------------------------------------------------------

    def take_snapshot_records(self) -> Replayed | None:
        """What the newest snapshot holds; read from the disk again if it was taken before."""
        taken, self._loaded = self._snapshot_records(), None
        return taken

    def _snapshot_records(self) -> Replayed | None:
        if not self.snapshots:
            return None
        id_ = self.snapshots[0]
        loaded = self._loaded or read_snapshot(self._disk, self.path_of(id_))
        return Replayed(loaded.records, id_.offset - 1, id_.epoch, loaded.log_timestamp)

    def everything(self) -> Iterator[Any]:
        """All records that are here, committed or not: what was known when this node stopped."""
        snapshot = self._snapshot_records()
        if snapshot is not None:
            yield from snapshot.records
        for portion in self.replay(self.start_offset, self.end_offset):
            yield from portion.records

    def replay(self, start: int, end: int) -> Iterator[Replayed]:
        """The records between two offsets, in portions; whole batches, so `end` must be where one ends."""
        pending: list[Any] = []
        last: Replayed | None = None
        for chunk, batch in self._batches(start, end):
            if not batch.is_control:
                pending += [
                    decode_record(value) for _, _, _, value, _ in record_fields(chunk, batch) if value is not None
                ]
            last = Replayed(pending, batch.last_offset, batch.leader_epoch, batch.max_timestamp)
            if len(pending) >= _REPLAY_RECORDS:
                yield last
                pending, last = [], None
        if last is not None:
            yield last

    def _batches(self, start: int, end: int) -> Iterator[tuple[bytes, Any]]:
        expected = start
        for segment in self.log.segments_from(start):
            found = segment.find(start)
            if found is None:
                continue
            scanned = BatchScan(segment.file, found.position, segment.size, check_crc=True)
            for _, chunk, batches in scanned:
                for batch in batches:
                    if batch.base_offset >= end:
                        return
                    if batch.base_offset > expected:
                        raise KafkaStorageError(
                            f"{self.log.path} is damaged: offsets {expected} to {batch.base_offset - 1} are missing"
                        )
                    expected = batch.last_offset + 1
                    yield chunk, batch
            if scanned.reason is not None:  # never passed over: what follows was acknowledged
                raise KafkaStorageError(f"{segment.file.path} is damaged at byte {scanned.position}: {scanned.reason}")

    def read(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Bytes from the batch that has an offset on, to the end of the log; None if there are none."""
        return self.log.read(offset, max_bytes, self.log.log_end_offset)

    # -- writing -------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], epoch: int, now_ms: int) -> int:
        """Write encoded records as one batch, there as a whole or not at all; the offset of the last.

        Raises KafkaStorageError if the disk does not take them, and then nothing was written.
        """
        builder = BatchBuilder(base_offset=self.log.log_end_offset, leader_epoch=epoch)
        for value in values:
            builder.append(None, value, now_ms)
        if builder.size > MAX_BATCH_BYTES:
            raise UnknownServerError(f"the change takes {builder.size} bytes, more than a batch of {MAX_BATCH_BYTES}")
        return self._write(builder.build(), epoch, now_ms)

    def append_control(self, messages: Sequence[QuorumMessage], epoch: int, now_ms: int) -> list[ControlChange]:
        """Write control records as one batch; what they change."""
        first = self.log.log_end_offset
        data = quorum_batch(messages, base_offset=first, leader_epoch=epoch, timestamp=now_ms)
        self._write(data, epoch, now_ms)
        changes = (change_of(offset, message) for offset, message in enumerate(messages, first))
        return [change for change in changes if change is not None]

    def _write(self, batch: bytes, epoch: int, now_ms: int) -> int:
        self.log.append_as_leader(batch, scan(batch, check_crc=False), epoch, now_ms, AppendOrigin.RAFT_LEADER)
        return self.log.log_end_offset - 1

    def append_fetched(self, data: Buffer, epoch: int, now_ms: int) -> list[ControlChange]:
        """Append what the leader of an epoch sent, as far as it continues this log; what its control records change."""
        batches, _, reason = scan_prefix(data, 0, -1, True)
        if reason is not None and reason != TRUNCATED:
            logger.warning("quorum leader sent corrupt records: %s", reason)
        if not batches:
            return []
        if batches[0].base_offset != self.log.log_end_offset:
            logger.warning("quorum leader sent offset %d, expected %d", batches[0].base_offset, self.log.log_end_offset)
            return []
        self.log.append_as_follower(data, batches, epoch, now_ms)
        end = self.log.log_end_offset
        written = (batch for batch in batches if batch.is_control and batch.base_offset < end)
        return [change for batch in written for change in changes_in(data, batch)]

    def cut_from(self, offset: int, now_ms: int) -> None:
        """Truncate to an offset: remove the batch that has it and all after it."""
        self.log.truncate_to(offset, now_ms)

    # -- snapshots -------------------------------------------------------------------------------------

    def roll(self, now_ms: int) -> None:
        """Roll the segment, so that the present one can be deleted as a whole some day."""
        if self.log.segments[-1].size:
            self.log.roll(now_ms)

    def has_snapshot(self, id_: SnapshotId, high_watermark: int, now_ms: int) -> None:
        """A snapshot was written: delete older ones, and the segments that only they needed."""
        self._loaded = None
        if id_ not in self.snapshots:
            self.snapshots = sorted([id_, *self.snapshots], reverse=True)
        self.log.purge(now_ms)
        self._drop_snapshots(self.snapshots[KEPT_SNAPSHOTS:])
        oldest = self.snapshots[-1].offset
        if oldest <= high_watermark and self.log.advance_log_start_offset(oldest, high_watermark):
            self.log.delete_old_segments(now_ms, high_watermark)

    def start_from(self, id_: SnapshotId, snapshot: Snapshot, now_ms: int) -> list[ControlChange]:
        """Truncate the log fully to a snapshot that was fetched from the leader; what it says."""
        self.log.truncate_fully_and_start_at(id_.offset, now_ms=now_ms)
        self._drop_snapshots([known for known in self.snapshots if known != id_])
        self.snapshots = [id_]
        self._loaded = snapshot
        return changes_of(snapshot.control, id_.offset - 1)

    def clean(self, high_watermark: int, max_bytes: int, max_age_ms: int, now_ms: int) -> None:
        """Delete older snapshots where the log and its snapshots are larger or older than retention allows."""
        while len(self.snapshots) > 1:
            oldest = self.snapshots[-1]
            sizes = sum(self._disk.size(self.path_of(id_)) for id_ in self.snapshots)
            too_large = 0 <= max_bytes < self.log.size_bytes + sizes
            age_ms = now_ms - self._disk.modified_ms(self.path_of(oldest))
            if not too_large and not 0 <= max_age_ms < age_ms:
                return
            self._drop_snapshots([oldest])
            start = self.snapshots[-1].offset
            if start <= high_watermark and self.log.advance_log_start_offset(start, high_watermark):
                self.log.delete_old_segments(now_ms, high_watermark)

    def _drop_snapshots(self, gone: Sequence[SnapshotId]) -> None:
        for id_ in list(gone):
            self._disk.unlink(self.path_of(id_))
            if id_ in self.snapshots:
                self.snapshots.remove(id_)

    def bytes_after_snapshot(self) -> int:
        """How much of the log a start would have to replay."""
        start = self.snapshots[0].offset if self.snapshots else 0
        segments = self.log.segments_from(start)
        if self._counted_from != (start, segments[0].base_offset):
            found = segments[0].find(start)
            self._counted_from = (start, segments[0].base_offset)
            self._not_counted = found.position if found is not None else segments[0].size
        return max(sum(segment.size for segment in segments) - self._not_counted, 0)

    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot; 0 if there is none."""
        return self._disk.size(self.path_of(self.snapshots[0])) if self.snapshots else 0
