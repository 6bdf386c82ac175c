"""A partition's log: what is appended, read, cut off, rolled and forced to the device.

Synchronous, and used by one thread; only a `SyncJob` runs elsewhere. Times are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from kavka.kernels.batches import BatchInfo, patch, patched_prefix
from kavka.model.errors import (
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from kavka.model.types import FileSlice, TopicPartition, Uuid
from kavka.storage import files, retention
from kavka.storage.checkpoint import encode_epochs
from kavka.storage.config import LogConfig
from kavka.storage.dirs import encode_partition_metadata
from kavka.storage.disk import Buffer, Disk
from kavka.storage.epochs import LeaderEpochs
from kavka.storage.producer_snapshot import decode_snapshot
from kavka.storage.producer_state import KIND_BITS, AppendOrigin, BatchMeta, PreparedAppend, ProducerStates, is_expired
from kavka.storage.recovery import next_offset_of
from kavka.storage.replay import drop_snapshots, load_snapshot, replay_segments, snapshot_path, write_snapshot
from kavka.storage.retention import ExpiredSegment, RetentionView
from kavka.storage.scan import read_marker
from kavka.storage.segment import MAX_RELATIVE_OFFSET, Mark, Search, Segment, marks_of
from kavka.storage.segments import LogFiles
from kavka.storage.txn_index import AbortedTransaction

__all__ = ["AppendInfo", "AppendOrigin", "Log", "LogConfig", "UnexpectedOffset"]

_CLIENT = AppendOrigin.CLIENT
_REPLICATION = AppendOrigin.REPLICATION
_PREFIX_BYTES = 17
_LOG_APPEND_TIME = 0x08
_new_tuple = tuple.__new__
MAX_EPOCH = 2**31 - 1


class UnexpectedOffset(KafkaError, code=-1):  # noqa: N818 (named as the errors it is caught with)
    """A follower was given batches that do not continue its log."""


class AppendInfo(NamedTuple):
    """What an append did: for a duplicate, what the first attempt did."""

    first_offset: int
    last_offset: int
    log_append_time: int
    max_timestamp: int
    log_start_offset: int
    duplicate: bool = False


class Log(LogFiles):
    """The batches of one partition that are on this disk, from its local log start offset to its log end offset.

    The log start offset is where the partition begins for its clients: before the local one if what lies between is
    in tiered storage, else the same.
    """

    __slots__ = ("local_log_start_offset", "log_start_offset", "producers", "topic_id")

    def __init__(
        self,
        disk: Disk,
        path: str,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        config: LogConfig,
        segments: list[Segment],
        log_end_offset: int,
        epochs: LeaderEpochs,
        producers: ProducerStates,
    ) -> None:
        super().__init__(disk, path, topic_partition, config, segments, log_end_offset, epochs)
        self.topic_id = topic_id
        self.log_start_offset = self.local_log_start_offset = segments[0].base_offset
        self.producers = producers

    @classmethod
    def create(
        cls,
        disk: Disk,
        path: str,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        config: LogConfig,
        now_ms: int = 0,
        log_start_offset: int = 0,
    ) -> Log:
        """A new, empty log in a directory of its own."""
        try:
            disk.mkdir(path)
            segment = Segment.create(disk, path, log_start_offset, config, now_ms)
            log = cls(
                disk,
                path,
                topic_partition,
                None,
                config,
                [segment],
                log_start_offset,
                LeaderEpochs(),
                ProducerStates(topic_partition),
            )
            log._new_names = True
            if topic_id is not None:
                log.assign_topic_id(topic_id)
        except OSError as error:
            raise KafkaStorageError(f"cannot create the log {path}: {error}") from error
        return log

    def __repr__(self) -> str:
        return f"Log({self.path}, {self.log_start_offset}-{self.log_end_offset})"

    # -- what it is

    @property
    def unflushed_messages(self) -> int:
        """How many offsets are not known to be durable."""
        return self.log_end_offset - self.recovery_point

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Note which topic this log belongs to, for good."""
        if self.topic_id is None:
            path = f"{self.path}/{files.PARTITION_METADATA}"
            with self._guard("write partition.metadata"):
                self.disk.write_file(path, encode_partition_metadata(topic_id))
            self.topic_id = topic_id
            self._unsynced.append(path)
            self._new_names = True
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(f"{self.path} belongs to topic id {self.topic_id}, not {topic_id}")

    # -- appending

    def append_as_leader(
        self,
        data: Buffer,
        batches: Sequence[BatchInfo],
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = _CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Number validated batches on from the log end and write them; a duplicate answers with what was written."""
        if len(batches) == 1:
            return self.append_one(data, batches[0], leader_epoch, now_ms, origin, transaction_version)
        if self.failed is not None:
            raise KafkaStorageError(self.failed)
        return self._append_many(data, batches, leader_epoch, now_ms, origin, transaction_version)

    def append_one(
        self,
        data: Buffer,
        batch: BatchInfo,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = _CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """What `append_as_leader` does, for one batch; in a writable buffer, it is numbered there."""
        if self.failed is not None:
            raise KafkaStorageError(self.failed)
        position, size, delta, attributes, max_timestamp, producer_id, epoch, sequence = batch.numbers()
        offset = self.log_end_offset
        prepared = None
        entry = None
        if producer_id >= 0:
            entry = self.producers.entries.get(producer_id)
            if (
                entry is None
                or origin is not _CLIENT
                or entry.next_sequence != sequence
                or entry.producer_epoch != epoch
                or entry.kind != attributes & KIND_BITS
            ):
                prepared = PreparedAppend()
                duplicate = self._prepare(prepared, data, batch, offset, origin, transaction_version)
                if duplicate is not None:
                    return self._duplicate(duplicate, batch)
        last_offset = offset + delta
        segment = self._segment_for(size, offset, last_offset, max_timestamp, now_ms)
        if self.epochs.latest != leader_epoch:
            self.epochs.assign(leader_epoch, offset)
        view = memoryview(data) if type(data) is not memoryview else data
        if view.readonly:
            rest = view[position + _PREFIX_BYTES : position + size]
            buffers: Sequence[Buffer] = (patched_prefix(data, batch, offset, leader_epoch), rest)
        else:  # what came from a socket is numbered where it lies
            patch(view, position, offset, leader_epoch)
            buffers = (view if len(view) == size else view[position : position + size],)
        self._write(segment, buffers, size, ((size, last_offset, max_timestamp),))
        self.log_end_offset = last_offset + 1
        if prepared is not None:
            self._commit(prepared, segment)
        elif entry is not None:
            entry.add(epoch, sequence, batch.last_sequence, offset, last_offset, max_timestamp)
        stamped = max_timestamp if attributes & _LOG_APPEND_TIME else -1
        return _new_tuple(AppendInfo, (offset, last_offset, stamped, max_timestamp, self.log_start_offset, False))

    def append_as_follower(
        self, data: Buffer, batches: Sequence[BatchInfo], leader_epoch: int = MAX_EPOCH, now_ms: int = 0
    ) -> AppendInfo | None:
        """Write batches as a leader numbered them; those of an epoch after `leader_epoch`, and what follows, are left.

        None if nothing was to be written.
        """
        if self.failed is not None:
            raise KafkaStorageError(self.failed)
        batches = self._continuing(batches, leader_epoch)
        if not batches:
            return None
        view = memoryview(data)
        total = batches[-1].position + batches[-1].size - batches[0].position
        small = total <= self.config.segment_bytes
        if small and batches[-1].last_offset - batches[0].base_offset <= MAX_RELATIVE_OFFSET:
            self._append_numbered(view, batches, now_ms)
        else:
            for batch in batches:
                self._append_numbered(view, [batch], now_ms)
        max_timestamp = max(batch.max_timestamp for batch in batches)
        return AppendInfo(batches[0].base_offset, batches[-1].last_offset, -1, max_timestamp, self.log_start_offset)

    def _append_many(
        self,
        data: Buffer,
        batches: Sequence[BatchInfo],
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        transaction_version: int,
    ) -> AppendInfo:
        first = offset = self.log_end_offset
        max_timestamp = -1
        prepared = PreparedAppend()
        view = memoryview(data)
        buffers: list[Buffer] = []
        marks: list[Mark] = []
        size = 0
        for batch in batches:
            if batch.producer_id >= 0:
                duplicate = self._prepare(prepared, data, batch, offset, origin, transaction_version)
                if duplicate is not None:
                    return self._duplicate(duplicate, batch)
            buffers.append(patched_prefix(data, batch, offset, leader_epoch))
            buffers.append(view[batch.position + _PREFIX_BYTES : batch.position + batch.size])
            offset += batch.last_offset_delta + 1
            marks.append((batch.size, offset - 1, batch.max_timestamp))
            max_timestamp = max(max_timestamp, batch.max_timestamp)
            size += batch.size
        if not batches:
            return AppendInfo(first, first - 1, -1, -1, self.log_start_offset)
        segment = self._segment_for(size, first, offset - 1, max_timestamp, now_ms)
        if self.epochs.latest != leader_epoch:
            self.epochs.assign(leader_epoch, first)
        self._write(segment, buffers, size, marks)
        self.log_end_offset = offset
        self._commit(prepared, segment)
        append_time = max_timestamp if batches[0].is_log_append_time else -1
        return AppendInfo(first, offset - 1, append_time, max_timestamp, self.log_start_offset)

    def _continuing(self, batches: Sequence[BatchInfo], leader_epoch: int) -> list[BatchInfo]:
        """The batches a follower may append: in order, after its log end, not of a later epoch."""
        chosen: list[BatchInfo] = []
        last = -1
        for batch in batches:
            if batch.leader_epoch > leader_epoch:
                break
            if batch.last_offset <= last:
                raise UnexpectedOffset(f"{self.topic_partition} was given offset {batch.last_offset} after {last}")
            last = batch.last_offset
            chosen.append(batch)
        if chosen and chosen[0].base_offset < self.log_end_offset:
            raise UnexpectedOffset(
                f"{self.topic_partition} was given offset {chosen[0].base_offset} but goes on at {self.log_end_offset}"
            )
        return chosen

    def _append_numbered(self, view: memoryview, batches: Sequence[BatchInfo], now_ms: int) -> None:
        first, last = batches[0], batches[-1]
        start, end = first.position, last.position + last.size
        prepared = PreparedAppend()
        max_timestamp = -1
        for batch in batches:
            max_timestamp = max(max_timestamp, batch.max_timestamp)
            if batch.producer_id >= 0:
                self._prepare(prepared, view, batch, batch.base_offset, _REPLICATION, 0)
        segment = self._segment_for(end - start, first.base_offset, last.last_offset, max_timestamp, now_ms)
        for batch in batches:
            if batch.leader_epoch >= 0 and batch.leader_epoch != self.epochs.latest:
                self.epochs.assign(batch.leader_epoch, batch.base_offset)
        self._write(segment, [view[start:end]], end - start, marks_of(batches))
        self.log_end_offset = last.last_offset + 1
        self._commit(prepared, segment)

    def _prepare(
        self,
        prepared: PreparedAppend,
        data: Buffer,
        batch: BatchInfo,
        offset: int,
        origin: AppendOrigin,
        transaction_version: int,
    ) -> BatchMeta | None:
        """Check a batch against its producer's state; returns the batch it repeats, if it repeats one."""
        if origin is _CLIENT:
            entry = self.producers.entries.get(batch.producer_id)
            duplicate = entry.duplicate_of(batch) if entry is not None else None
            if duplicate is not None:
                return duplicate
        self.producers.prepare(batch, offset, origin, prepared, lambda: read_marker(data, batch), transaction_version)
        return None

    def _duplicate(self, known: BatchMeta, batch: BatchInfo) -> AppendInfo:
        return AppendInfo(
            known.first_offset, known.last_offset, known.timestamp, batch.max_timestamp, self.log_start_offset, True
        )

    def _commit(self, prepared: PreparedAppend, segment: Segment) -> None:
        for completed, last_stable_offset in self.producers.commit(prepared):
            if completed.aborted:
                with self._guard("write the transaction index"):
                    segment.txn_index.append(
                        AbortedTransaction(
                            completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
                        )
                    )

    # -- rolling

    def _segment_for(self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The segment that takes a write, a new one if the active one is full or old."""
        segment = self._active
        config = self.config
        length = segment.size
        if (
            length + size > config.segment_bytes
            or segment.index_full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            if size > config.segment_bytes:
                raise RecordListTooLarge(
                    f"{size} bytes for {self.topic_partition} are more than segment.bytes={config.segment_bytes}"
                )
            return self.roll(now_ms, first_offset)
        if length:
            first_timestamp = segment.first_timestamp
            if first_timestamp is None:
                first_timestamp = segment.first_batch_timestamp()
            waited = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - segment.created_ms
            if waited > config.roll_ms - segment.jitter_ms:
                return self.roll(now_ms, first_offset)
        return segment

    def roll(self, now_ms: int, first_offset: int = 0) -> Segment:
        """Go on in a new segment, with a snapshot of the producers at its start; an empty one is kept."""
        active = self._active
        base_offset = max(first_offset, self.log_end_offset)
        if active.size == 0 and base_offset == active.base_offset:
            return active
        with self._guard("roll"):
            active.index_end(self.log_end_offset - 1)
            active.seal()
            self._sealed.append(active)
            path = write_snapshot(self.disk, self.path, self.producers, base_offset)
            if path is not None:
                self._unsynced.append(path)
            return self._begin_segment(base_offset, now_ms)

    # -- reading

    def read(self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True) -> FileSlice | None:
        """Bytes from the batch that has an offset on, ending before `up_to_offset`; None if there are none.

        At most `max_bytes`, cut anywhere but in the first batch: if that is larger, it is all there is with
        `min_one`, and nothing without.
        """
        start, end = self.local_log_start_offset, self.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} of {self.topic_partition} is not in {start}-{end}")
        if offset >= up_to_offset:
            return None
        if self.failed is not None:
            raise KafkaStorageError(self.failed)
        try:
            return self._slice(offset, max_bytes, up_to_offset, min_one)
        except OSError as error:
            self._cannot_read(error)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset before which every transaction is decided, and known to be to all in-sync replicas."""
        producers = self.producers
        if not producers.ongoing and not producers.unreplicated:
            return high_watermark
        producers.replicated(high_watermark)
        first = producers.first_unstable_offset()
        return high_watermark if first is None else min(high_watermark, max(first, self.log_start_offset))

    def search_timestamp(self, timestamp: int) -> Search:
        """The first record whose timestamp is at least this one."""
        with self._reading():
            for segment in list(self._segments):
                if segment.largest_timestamp_ms >= timestamp:
                    found = yield from segment.search_timestamp(timestamp, self.local_log_start_offset)
                    if found is not None:
                        return found
        return None

    def search_max_timestamp(self) -> Search:
        """The first record that has the largest timestamp."""
        with self._reading():
            return (yield from max(self._segments, key=attrgetter("max_timestamp")).search_max_timestamp())

    # -- cutting

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Remove the batch that has this offset and all after it, with the producer state they made.

        The log then ends where that batch began. Says whether anything went.
        """
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to {offset}")
        self.epochs.truncate_from_end(min(offset, self.log_end_offset))
        if offset >= self.log_end_offset:
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, min(offset, self.log_start_offset), now_ms)
            return True
        with self._guard("truncate"):
            gone = [segment for segment in self._segments if segment.base_offset > offset]
            del self._segments[len(self._segments) - len(gone) :]
            self._active = self._segments[-1]
            self.delete_later(gone, now_ms)
            self._drop_snapshots_of(gone)
            offset = min(offset, self._active.truncate_to(offset, now_ms, self.config))
            self._set_end(offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self.local_log_start_offset = min(self.local_log_start_offset, offset)
            self._reload_producers(offset, now_ms)
        if (end := next_offset_of(self._active)) is not None and end < offset:
            self.roll(now_ms)  # compaction has left a gap there: a file's name keeps where the log ends
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None, now_ms: int = 0) -> None:
        """Remove everything and go on at an offset; what is before it, from the log start on, is in tiered storage."""
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        with self._guard("truncate"):
            self.delete_later(self._segments, now_ms)
            self._segments.clear()
            self._begin_segment(offset, now_ms)
            self.epochs.truncate_from_end(offset if self.log_start_offset < offset else 0)
            self.producers.clear()
            drop_snapshots(self.disk, self.path, self.producers, -1, -1)
        self.local_log_start_offset = max(offset, self.log_start_offset)
        self._set_end(offset)

    def start_after(
        self,
        offset: int,
        log_start_offset: int,
        epochs: Iterable[tuple[int, int]],
        producers: bytes | None,
        now_ms: int,
    ) -> None:
        """Remove everything and go on at an offset, with what the records before it, in tiered storage, have left.

        KafkaStorageError, and nothing is removed, if that is damaged.
        """
        entries = decode_snapshot(producers) if producers is not None else []
        self.truncate_fully_and_start_at(offset, log_start_offset, now_ms)
        self.epochs.clear()
        for epoch, start in epochs:
            if start < offset:
                self.epochs.assign(epoch, start)
        self.epochs.truncate_from_start(log_start_offset)
        expiration_ms = self.config.producer_id_expiration_ms
        self.producers.restore(entry for entry in entries if not is_expired(entry, now_ms, expiration_ms))
        with self._guard("write leader epochs and producers"):
            self.disk.write_file(f"{self.path}/{files.LEADER_EPOCHS}", encode_epochs(self.epochs.entries))
            path = write_snapshot(self.disk, self.path, self.producers, offset)
            if path is not None:
                self._unsynced.append(path)

    def _reload_producers(self, end_offset: int, now_ms: int) -> None:
        producers = self.producers
        had_none = not producers.entries and not producers.unreplicated
        drop_snapshots(self.disk, self.path, producers, self.log_start_offset, end_offset)
        if had_none:
            return  # truncation cannot bring producers back
        start = load_snapshot(
            self.disk, self.path, producers, now_ms, self.config.producer_id_expiration_ms, damaged=[]
        )
        start = self.local_log_start_offset if start is None else start
        replay_segments(self.disk, self.path, producers, self._segments, start, end_offset)

    def advance_log_start_offset(self, offset: int, high_watermark: int) -> bool:
        """Make offsets before this one unreadable; the segments go at the next retention. Says whether it moved."""
        if offset > high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic_partition} cannot start at {offset}: its high watermark is {high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.local_log_start_offset = max(self.local_log_start_offset, offset)
        self.epochs.truncate_from_start(offset)
        self.producers.replicated(offset)
        return True

    # -- retention

    def delete_old_segments(
        self, now_ms: int, high_watermark: int, tiered_end_offset: int | None = None
    ) -> list[ExpiredSegment]:
        """Delete segments before the log start or past retention.bytes or retention.ms; files go after the delay.

        Of a log with a tier behind it, only what the tier has (all before `tiered_end_offset`) goes by size and age,
        and by the local limits; clients can read on from where they could.
        """
        tiered = tiered_end_offset is not None
        limits = self.config.local if tiered else self.config
        dropped: list[ExpiredSegment] = []
        rules: list[Callable[[RetentionView], list[ExpiredSegment]]] = [retention.before_log_start]
        if self.config.delete or (tiered and not self.config.compact):
            rules.append(lambda view: retention.over_size(view, limits))
            rules.append(lambda view: retention.over_age(view, limits, now_ms))
        with self._guard("delete old segments"):
            for number, rule in enumerate(rules):
                view = RetentionView(self._segments, self.log_start_offset, self.log_end_offset, high_watermark)
                expired = found = rule(view)
                if tiered_end_offset is not None and number:
                    expired = retention.in_tier(view, found, tiered_end_offset)
                    if len(found) == len(self._segments) and len(expired) == len(found) - 1:
                        self.roll(now_ms)  # so that the tier gets what the disk has kept for long enough
                if expired:
                    self._drop([item.segment for item in expired], now_ms)
                    dropped += expired
                    if not tiered:
                        self.advance_log_start_offset(self.local_log_start_offset, high_watermark)
        return dropped

    def _drop(self, gone: list[Segment], now_ms: int) -> None:
        if len(gone) == len(self._segments):
            self.roll(now_ms)
        del self._segments[: len(gone)]
        # The recovery point stays: until the new names are forced a crash may bring a deleted segment back, torn.
        self.local_log_start_offset = max(self.local_log_start_offset, self._segments[0].base_offset)
        self.delete_later(gone, now_ms)
        self._drop_snapshots_of(gone)

    def replace_segments(self, new: Segment, old: Sequence[Segment], now_ms: int) -> None:
        """Put a compacted segment, still named .cleaned, in the place of neighbouring sealed ones."""
        super().replace_segments(new, old, now_ms)
        self._drop_snapshots_of([segment for segment in old if segment.base_offset != new.base_offset])

    def _drop_snapshots_of(self, gone: Sequence[Segment]) -> None:
        """Remove the snapshots at the starts of segments that went."""
        for segment in gone:
            if segment.base_offset in self.producers.snapshots:
                self.producers.snapshots.remove(segment.base_offset)
                self.disk.unlink(snapshot_path(self.path, segment.base_offset))

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for too long; says how many."""
        return self.producers.remove_expired(now_ms, self.config.producer_id_expiration_ms)

    # -- the end

    def close(self, sync: bool = True) -> None:
        """Write everything out, with a snapshot of the producers, and let go of the files.

        Without `sync` the caller makes the whole file system durable before it says the stop was clean.
        """
        if self.failed is not None:
            return
        with self._guard("close"):
            path = write_snapshot(self.disk, self.path, self.producers, self.log_end_offset)
            if path is not None:
                self._unsynced.append(path)
                self._new_names = True
            self._active.seal()
            if self._active.indexes_open:
                self._sealed.append(self._active)
            if sync:
                self.sync()
            else:
                if self.epochs.dirty:
                    self.disk.write_file(f"{self.path}/{files.LEADER_EPOCHS}", encode_epochs(self.epochs.entries))
                self.recovery_point = self.log_end_offset
            for segment in self._segments:
                segment.close()
