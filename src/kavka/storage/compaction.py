"""Compaction as a function of files: given a plan, write new segments beside the old ones.

Nothing that exists is changed: the results are `.cleaned` files, durable, which the log's owner swaps in. The rules
are those of Kafka's cleaner: the last value of each key stays, tombstones and the markers of emptied transactions stay
until their delete horizon (KIP-534), aborted data goes, and a producer's last batch stays, emptied if need be.

A batch whose records cannot be read, or would be too much for the memory, stays as it is and is counted: neither its
keys nor its size may keep the rest from being compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kavka.kernels.batches import BatchInfo, RecordScan, scan
from kavka.model.errors import KafkaError, KafkaStorageError
from kavka.records.batch import Header, payload_parts, record_parts, records
from kavka.records.builder import BatchBuilder, empty_batch
from kavka.records.control import ControlType, control_type
from kavka.storage import files
from kavka.storage.config import LogConfig
from kavka.storage.disk import Disk
from kavka.storage.offset_map import OffsetMap
from kavka.storage.recovery import next_offset_of
from kavka.storage.scan import BatchScan
from kavka.storage.segment import Segment, marks_of
from kavka.storage.txn_index import AbortedTransaction

_WRITE_BYTES = 1 << 20
_MAX_BYTES = 128 << 20  # of a batch, decompressed
_HELD = 10_000  # so many records of a batch are kept at a time

Fields = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A segment to clean, as it was when the plan was made."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """All that a compaction needs to know besides the files."""

    path: str
    generation: int  # of the log: it changes when the log is cut
    groups_limit_bytes: int
    index_interval_bytes: int
    index_size_max_bytes: int
    delete_retention_ms: int
    dedupe_buffer_bytes: int
    io_bytes_per_second: float
    now_ms: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    segments: tuple[SourceSegment, ...]
    aborted: tuple[AbortedTransaction, ...]
    last_offsets: dict[int, tuple[int, int]]  # active producer -> (last data offset or -1, producer epoch)


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A new segment and the old ones it stands for."""

    base_offset: int
    size: int
    replaces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction wrote, and up to which offset keys are now unique."""

    clean_offset: int
    groups: tuple[CleanedGroup, ...]
    records_read: int
    records_kept: int
    unread: int = 0  # batches that were left as they are


class _OngoingAborted:
    """An aborted transaction whose marker was not read yet."""

    __slots__ = ("has_data", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.has_data = False


class CleanedTransactionMetadata:
    """Which transactions were aborted, followed in the order of offsets."""

    __slots__ = ("_aborted", "_committed_data", "_next", "_ongoing", "aborted_with_data")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._aborted = sorted(set(aborted), key=lambda txn: txn.first_offset)
        self._next = 0
        self._ongoing: dict[int, _OngoingAborted] = {}  # by producer id
        self._committed_data: set[int] = set()
        self.aborted_with_data: list[AbortedTransaction] = []

    def is_aborted(self, batch: BatchInfo) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._advance(batch)
        if not batch.is_transactional:
            return False
        ongoing = self._ongoing.get(batch.producer_id)
        if ongoing is None:
            self._committed_data.add(batch.producer_id)
            return False
        ongoing.has_data = True
        return True

    def is_spent(self, data: bytes, batch: BatchInfo) -> bool:
        """Whether a control batch is a marker whose transaction has no data left, or was emptied before."""
        self._advance(batch)
        if not is_sound(data, batch):
            return False
        record = next(records(data, batch), None)
        if record is None:
            return True
        kind = control_type(record.key)
        if kind == ControlType.ABORT:
            ongoing = self._ongoing.pop(batch.producer_id, None)
            if ongoing is not None and ongoing.has_data:
                self.aborted_with_data.append(ongoing.transaction)
                return False
            return True
        if kind == ControlType.COMMIT:
            had_data = batch.producer_id in self._committed_data
            self._committed_data.discard(batch.producer_id)
            return not had_data
        return False

    def _advance(self, batch: BatchInfo) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= batch.last_offset:
            txn = self._aborted[self._next]
            if txn.last_offset >= batch.base_offset:  # else its marker lies before what is read here
                self._ongoing.setdefault(txn.producer_id, _OngoingAborted(txn))
            self._next += 1


Spend = Callable[[int], None]
"""Told of bytes that were read or written; may take its time."""


def compact(disk: Disk, plan: CompactionPlan, spend: Spend = lambda size: None) -> CompactionResult:
    """Write the compacted segments of a plan; raises if a file is not what the plan says."""
    cleaner = _Cleaner(disk, plan, spend)
    try:
        cleaner.map_keys()
        groups = tuple(cleaner.clean_group(group) for group in cleaner.groups())
    except OSError as error:
        raise KafkaStorageError(f"cannot compact {plan.path}: {error}") from error
    disk.fsync_dir(plan.path)
    clean_offset = max(cleaner.keys.latest_offset + 1, plan.first_dirty_offset)
    return CompactionResult(clean_offset, groups, cleaner.records_read, cleaner.records_kept, cleaner.unread)


class _Cleaner:
    """The state of one compaction."""

    __slots__ = (
        "config",
        "disk",
        "keys",
        "plan",
        "records_kept",
        "records_read",
        "segments",
        "spend",
        "transactions",
        "unread",
    )

    def __init__(self, disk: Disk, plan: CompactionPlan, spend: Spend) -> None:
        self.disk = disk
        self.plan = plan
        self.spend = spend
        self.keys = OffsetMap(plan.dedupe_buffer_bytes)
        self.config = LogConfig(
            segment_bytes=plan.groups_limit_bytes,
            index_interval_bytes=plan.index_interval_bytes,
            index_size_max_bytes=plan.index_size_max_bytes,
        )
        self.segments = [self._open(source) for source in plan.segments]
        self.transactions = CleanedTransactionMetadata(plan.aborted)
        self.records_read = 0
        self.records_kept = 0
        self.unread = 0

    def _open(self, source: SourceSegment) -> Segment:
        path = f"{self.plan.path}/{files.file_name(source.base_offset, files.LOG)}"
        return Segment(self.disk, self.disk.file(path), source.base_offset, source.size, self.plan.now_ms)

    def batches(self, segment: Segment, start: int = 0) -> Iterator[tuple[bytes, BatchInfo]]:
        """A segment's batches; compacting an unsound one would lose data that recovery may still save."""
        reading = BatchScan(segment.file, start, segment.size, check_crc=True)
        for _, chunk, infos in reading:
            self.spend(len(chunk))
            for info in infos:
                yield chunk, info
        if reading.reason is not None:
            raise KafkaStorageError(f"{segment.file.path} at byte {reading.position}: {reading.reason}")

    def map_keys(self) -> None:
        """Learn the last offset of each key from the first dirty offset on, until the map is full."""
        start = self.plan.first_dirty_offset
        transactions = CleanedTransactionMetadata(self.plan.aborted)
        for number, segment in enumerate(self.segments):
            last = number + 1 == len(self.segments)
            end = self.plan.first_uncleanable_offset if last else self.segments[number + 1].base_offset
            if end <= start:
                continue
            for chunk, batch in self.batches(segment):
                if not self._map_batch(chunk, batch, start, transactions):
                    return
            self.keys.latest_offset = max(self.keys.latest_offset, end - 1)

    def _map_batch(self, chunk: bytes, batch: BatchInfo, start: int, transactions: CleanedTransactionMetadata) -> bool:
        """Learn a batch's keys; False if they no longer fit."""
        if batch.is_control:
            transactions.is_spent(chunk, batch)
        elif not transactions.is_aborted(batch) and batch.last_offset >= start and is_sound(chunk, batch):
            for part in record_parts(chunk, batch, _MAX_BYTES):
                for offset, _, key, _, _ in part:
                    if key is not None and offset >= start:
                        if self.keys.full:
                            return False
                        self.keys.put(key, offset)
        if batch.last_offset >= start:
            self.keys.latest_offset = max(self.keys.latest_offset, batch.last_offset)
        return True

    def groups(self) -> list[list[Segment]]:
        """Neighbouring segments that fit into one, up to the last offset that was learnt."""
        following = [segment.base_offset for segment in self.segments[1:]] + [self.plan.first_uncleanable_offset]
        grouped: list[list[Segment]] = []
        for segment, next_base in zip(self.segments, following, strict=False):
            if segment.base_offset > self.keys.latest_offset:
                break
            if grouped and self._fits(grouped[-1], segment, next_base - 1):
                grouped[-1].append(segment)
            else:
                grouped.append([segment])
        return grouped

    def _fits(self, group: list[Segment], segment: Segment, end: int) -> bool:
        together = [*group, segment]
        limit = self.plan.index_size_max_bytes
        return (
            sum(member.size for member in together) <= self.plan.groups_limit_bytes
            and sum(len(member.offset_index) * 8 for member in together) <= limit
            and sum(len(member.time_index) * 12 for member in together) <= limit
            and (segment.size == 0 or end - group[0].base_offset < 2**31)
        )

    def clean_group(self, group: list[Segment]) -> CleanedGroup:
        """Write one new segment from several old ones, and force it to the device."""
        base_offset = group[0].base_offset
        new = Segment.create(self.disk, self.plan.path, base_offset, self.config, self.plan.now_ms, files.CLEANED)
        pending = bytearray()
        for segment in group:
            for chunk, batch in self.batches(segment):
                pending += self._filtered(chunk, batch)
                if len(pending) >= _WRITE_BYTES:
                    self._write(new, pending)
        self._write(new, pending)
        for aborted in self.transactions.aborted_with_data:
            new.txn_index.append(aborted)
        self.transactions.aborted_with_data = []
        end = next_offset_of(new)
        if end is not None:
            new.index_end(end - 1)
        new.seal()
        modified_ms = self.disk.modified_ms(group[-1].file.path)
        for file in new.open_files():
            file.sync()
            file.close()
            self.disk.set_modified_ms(file.path, modified_ms)
        return CleanedGroup(base_offset, new.size, tuple(segment.base_offset for segment in group))

    def _write(self, new: Segment, pending: bytearray) -> None:
        if pending:
            data = bytes(pending)
            new.append([data], len(data), marks_of(scan(data, check_crc=False)), self.config)
            self.spend(len(data))
            pending.clear()

    def _filtered(self, chunk: bytes, batch: BatchInfo) -> bytes | memoryview:
        """What is left of a batch."""
        now_ms = self.plan.now_ms
        horizon = batch.base_timestamp if batch.has_delete_horizon else None
        spent_marker = False
        if batch.is_control:
            spent_marker = self.transactions.is_spent(chunk, batch)
            discard = spent_marker and horizon is not None and horizon <= now_ms
        else:
            discard = self.transactions.is_aborted(batch)
        keep_empty = self._is_last_of_producer(batch) or batch.last_offset + 1 == self.plan.first_uncleanable_offset
        self.records_read += batch.count
        if discard:
            return empty_batch(batch) if keep_empty else b""
        if not is_sound(chunk, batch):
            self.unread += 1
            self.records_kept += batch.count
            return memoryview(chunk)[batch.position : batch.position + batch.size]
        staying = _Staying(self, chunk, batch, horizon is None or now_ms < horizon)
        if not staying.count:
            return empty_batch(batch) if keep_empty else b""
        self.records_kept += staying.count
        needs_horizon = horizon is None and (spent_marker or staying.tombstones)
        if staying.count == batch.count and not needs_horizon:
            return memoryview(chunk)[batch.position : batch.position + batch.size]
        return rebuilt(batch, staying, now_ms + self.plan.delete_retention_ms if needs_horizon else horizon)

    def stays(self, offset: int, key: bytes | None, value: bytes | None, tombstones_stay: bool) -> bool:
        """Whether a data record is the last of its key, as far as is known."""
        if offset > self.keys.latest_offset:
            return True
        if key is None or (value is None and not tombstones_stay):
            return False
        return offset >= self.keys.get(key)

    def _is_last_of_producer(self, batch: BatchInfo) -> bool:
        """Whether a producer's state would be lost with this batch."""
        known = self.plan.last_offsets.get(batch.producer_id) if batch.producer_id >= 0 else None
        if known is None:
            return False
        last_offset, epoch = known
        if last_offset >= 0:
            return batch.last_offset == last_offset
        return batch.is_control and batch.producer_epoch == epoch


class _Staying:
    """The records of a batch that stay: counted once, and then held or, if they are many, read again."""

    __slots__ = ("_batch", "_chunk", "_cleaner", "_held", "_tombstones_stay", "count", "tombstones")

    def __init__(self, cleaner: _Cleaner, chunk: bytes, batch: BatchInfo, tombstones_stay: bool) -> None:
        self._cleaner = cleaner
        self._chunk = chunk
        self._batch = batch
        self._tombstones_stay = tombstones_stay
        self.count = 0
        self.tombstones = False
        held: list[Fields] = []
        for fields in self._read():
            self.count += 1
            self.tombstones = self.tombstones or fields[3] is None
            if self.count <= _HELD:
                held.append(fields)
        self._held = held if self.count <= _HELD else None

    def __iter__(self) -> Iterator[Fields]:
        return self._read() if self._held is None else iter(self._held)

    def _read(self) -> Iterator[Fields]:
        everything, stays, tombstones_stay = self._batch.is_control, self._cleaner.stays, self._tombstones_stay
        for part in record_parts(self._chunk, self._batch, _MAX_BYTES):
            for fields in part:
                if everything or stays(fields[0], fields[2], fields[3], tombstones_stay):
                    yield fields


def is_sound(chunk: bytes, batch: BatchInfo) -> bool:
    """Whether a batch's records can be read, have offsets that go up within the batch's, and are not too much."""
    walk = RecordScan(batch.count, batch.base_timestamp, batch.is_log_append_time, batch.max_timestamp)
    try:
        for part in payload_parts(chunk, batch, _MAX_BYTES):
            walk.feed(part)
        walk.finish()
        if walk.headed:  # their names have to be text, too
            for _ in record_parts(chunk, batch, _MAX_BYTES):
                pass
    except KafkaError:
        return False
    return walk.increasing and walk.last_delta <= batch.last_offset_delta


def rebuilt(batch: BatchInfo, kept: Iterable[Fields], horizon: int | None) -> bytes:
    """A batch with some of its records, its offsets and sequence numbers as they were."""
    builder = BatchBuilder(
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        codec=batch.codec,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        log_append_time=batch.max_timestamp if batch.is_log_append_time else None,
        delete_horizon_ms=horizon,
    )
    for offset, timestamp, key, value, headers in kept:
        builder.append(key, value, timestamp, headers, offset)
    return builder.build(last_offset=batch.last_offset)
