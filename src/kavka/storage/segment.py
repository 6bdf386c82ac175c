"""One segment of a log: the batches from a base offset on, with their indexes, each opened when first needed."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from kavka.kernels.batches import LOG_OVERHEAD, BatchInfo, RecordScan
from kavka.model.errors import CorruptMessage, KafkaError, KafkaStorageError
from kavka.records.batch import payload_parts
from kavka.storage import files
from kavka.storage.config import LogConfig
from kavka.storage.disk import Buffer, Disk, DiskFile
from kavka.storage.index import NO_TIMESTAMP, OffsetIndex, TimeIndex
from kavka.storage.scan import BatchScan
from kavka.storage.txn_index import TransactionIndex

logger = logging.getLogger(__name__)

MAX_RELATIVE_OFFSET = 2**31 - 1

_SEARCH_BYTES = 8192
_SEEK_BYTES = 1 << 16
_HEADER = Struct(">qi11xi")  # base offset, length; then the last offset delta
_HEADER_BYTES = _HEADER.size
_MAX_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_AT = 35


class DamagedError(KafkaStorageError, code=CorruptMessage.code):
    """The batches of a log are not where they were: as far as clients are concerned, they are corrupt."""


class BatchPosition(NamedTuple):
    """Where a batch lies in its segment."""

    base_offset: int
    position: int
    size: int


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch that wrote it (-1 if unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int


Search = Generator[None, None, TimestampOffset | None]
"""A search that is done step by step, none of which takes long, and comes to a result in the end."""

Mark = tuple[int, int, int]
"""What a segment wants to know of a batch it is given: its size, its last offset and its largest timestamp."""


def marks_of(batches: Iterable[BatchInfo]) -> list[Mark]:
    """The marks of batches that have their numbers."""
    return [(batch.size, batch.last_offset, batch.max_timestamp) for batch in batches]


class Segment:
    """The files of one base offset; `size` is what counts of the .log file."""

    __slots__ = (
        "_checked",
        "_disk",
        "_doubtful",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_since_entry",
        "_time_index",
        "_txn_index",
        "base_offset",
        "created_ms",
        "end_unchecked",
        "file",
        "first_timestamp",
        "index_full",
        "jitter_ms",
        "preallocated",
        "size",
        "unchecked",
    )

    def __init__(
        self, disk: Disk, file: DiskFile, base_offset: int, size: int, created_ms: int, jitter_ms: int = 0
    ) -> None:
        self._disk = disk
        self.file = file
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.first_timestamp: int | None = None
        self.index_full = False
        self.preallocated = False
        """Whether the file was made longer than what is in it, whatever the settings say by now."""
        self.unchecked = size
        """Up to here the file was there before: nobody has looked whether its batches follow each other."""
        self.end_unchecked = size > 0
        """Whether nobody has looked yet if the end of what was there before is gone."""
        self._checked: Mark | None = None
        self._doubtful = False
        self._since_entry = 0
        self._max_timestamp: int | None = None if size else NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        suffix: str = "",
    ) -> Segment:
        """New files in place of any left-overs of the same name."""
        stem = f"{directory}/{base_offset:020d}"
        disk.unlink(stem + files.TXN_INDEX + suffix)
        disk.create(stem + files.INDEX + suffix).close()
        disk.create(stem + files.TIME_INDEX + suffix).close()
        file = disk.create(stem + files.LOG + suffix)
        if config.preallocate:
            file.truncate(config.segment_bytes)
        segment = cls(disk, file, base_offset, 0, now_ms, jitter(stem, config))
        segment.preallocated = config.preallocate
        segment.index_full = config.index_size_max_bytes < 2 * TimeIndex.entry.size
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.file.path}, size={self.size})"

    def path_of(self, kind: str) -> str:
        """Where the file of a kind is now, suffix included."""
        stem, _, suffix = self.file.path.rpartition(files.LOG)
        return stem + kind + suffix

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index."""
        if self._offset_index is None:
            path = self.path_of(files.INDEX)
            stored = OffsetIndex.sized(self._disk, path)
            index = OffsetIndex(self._disk.file(path), self.base_offset, stored)
            offset, position = index.last()
            if stored and not self._has_batch(position, offset):
                logger.warning("%s is corrupt: reading without it", path)
                self._doubtful = True
                index = OffsetIndex(self._disk.file(path), self.base_offset, 0)
            self._offset_index = index
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index."""
        if self._time_index is None:
            path = self.path_of(files.TIME_INDEX)
            stored = TimeIndex.sized(self._disk, path)
            index = TimeIndex(self._disk.file(path), self.base_offset, stored)
            timestamp, offset = index.last()
            if stored and not self._has_timestamp(timestamp, offset):
                logger.warning("%s is corrupt: reading without it", path)
                self._doubtful = True
                index = TimeIndex(self._disk.file(path), self.base_offset, 0)
                self._time_index = index
                self._max_timestamp, self._max_timestamp_offset = self._find_max_timestamp()
            self._time_index = index
        return self._time_index

    @property
    def txn_index(self) -> TransactionIndex:
        """The index of aborted transactions."""
        if self._txn_index is None:
            self._txn_index = TransactionIndex(self._disk, self.path_of(files.TXN_INDEX))
        return self._txn_index

    @property
    def indexes_open(self) -> bool:
        """Whether an index may have been written."""
        return self._offset_index is not None or self._time_index is not None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment; -1 if no record has one."""
        if self._max_timestamp is None:
            index = self.time_index
            if self._max_timestamp is None:  # else the index was damaged, and the log itself was asked
                self._max_timestamp, self._max_timestamp_offset = index.last()
        return self._max_timestamp

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp, or when the file was last written if no record has one."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.file.path)

    def append(self, buffers: Sequence[Buffer], length: int, marks: Sequence[Mark], config: LogConfig) -> None:
        """Write batches of `length` bytes together; if writing fails, the segment is as it was."""
        position = self.size
        known = self._max_timestamp
        if known is None:
            known = self.max_timestamp
        self.file.write_at(position, buffers, length)
        self.size = position + length
        if position == 0:
            self.first_timestamp = marks[0][2]
        for size, last_offset, max_timestamp in marks:
            if max_timestamp > known:
                self._max_timestamp = known = max_timestamp
                self._max_timestamp_offset = last_offset
            if self._since_entry > config.index_interval_bytes:
                self._add_entry(last_offset, position, config)
            self._since_entry += size
            position += size

    def _add_entry(self, last_offset: int, position: int, config: LogConfig) -> None:
        try:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self._max_timestamp_offset)
        except OSError:
            # The batch is written and the entry is kept in memory: the next sync or roll meets the same error.
            pass
        self._since_entry = 0
        self._check_full(config)

    def _check_full(self, config: LogConfig) -> None:
        limit = config.index_size_max_bytes
        self.index_full = (
            len(self.offset_index) >= limit // OffsetIndex.entry.size
            or len(self.time_index) >= limit // TimeIndex.entry.size - 1
        )

    def find(self, offset: int) -> BatchPosition | None:
        """The first batch that ends at or after an offset."""
        position = self.offset_index.lookup(offset)
        size = self.size
        read_at = self.file.read_at
        unpack = _HEADER.unpack_from
        chunk = read_at(position, min(_SEARCH_BYTES, max(size - position, 0)))
        if position and not self._has_batch(position, offset, chunk):
            position, chunk = 0, read_at(0, min(_SEARCH_BYTES, size))  # the index leads astray
        while position + _HEADER_BYTES <= size:
            last = len(chunk) - _HEADER_BYTES
            at = 0
            while at <= last:
                base_offset, length, delta = unpack(chunk, at)
                if base_offset + delta >= offset:
                    return BatchPosition(base_offset, position + at, length + LOG_OVERHEAD)
                if length < 0:
                    raise KafkaStorageError(f"{self.file.path} has no batch at byte {position + at}")
                at += length + LOG_OVERHEAD
            if at == 0:
                break
            position += at
            chunk = read_at(position, min(_SEARCH_BYTES, max(size - position, 0)))
        return None

    def check_order(self, position: int, end: int, following: int) -> None:
        """Raise DamagedError unless the batches from one position to another follow those before and after.

        No checksum covers a batch's base offset. `following` is the offset that nothing in the segment reaches.
        """
        checked = self._checked
        if checked is None or not checked[0] <= position <= checked[1]:
            checked = self._before(position)
        start, at, last = checked
        size, chunk, chunk_at = self.size, b"", 0
        while at < size:
            if not chunk_at <= at <= chunk_at + len(chunk) - _HEADER_BYTES:
                chunk, chunk_at = self.file.read_at(at, min(_SEARCH_BYTES, size - at)), at
            if len(chunk) < _HEADER_BYTES:
                raise self._out_of_order(at, "is cut short")
            base_offset, length, delta = _HEADER.unpack_from(chunk, at - chunk_at)
            if base_offset <= last or delta < 0 or length < 0:
                raise self._out_of_order(at, f"has offset {base_offset} after offset {last}")
            if at >= end:
                break
            last, at = base_offset + delta, at + length + LOG_OVERHEAD
        else:
            if at > size:
                raise self._out_of_order(size, "is cut short")
            if last >= following:
                raise self._out_of_order(at, f"ends with offset {last}, and {following} comes after it")
        self._checked = (start, at, last)
        if start == 0 and at >= self.unchecked:
            self.unchecked = 0

    def check_end(self, following: int) -> None:
        """Raise DamagedError if batches at the end are gone: what compaction has removed leaves sound indexes."""
        offsets, times = self.offset_index, self.time_index  # opening them tells whether they are doubtful
        self.check_order(offsets.last()[1], self.size, following)
        assert self._checked is not None
        last = self._checked[2]
        found = self.find(last)
        is_there = found is not None and found.position > 0 and offsets.last() == (last, found.position)
        doubtful = self._doubtful and not is_there  # else it is another index that is damaged
        if doubtful or max(offsets.last()[0], times.last()[1]) > max(last, self.base_offset):
            raise self._out_of_order(self.size, f"of offset {last + 1} is gone")
        self.end_unchecked = False

    def _before(self, position: int) -> tuple[int, int, int]:
        """Where checking begins so that the batch at a position has one before it: there, and the offset before."""
        index = self.offset_index
        entry = index.entry_before(index.entry_before(position)[1])
        if not self._has_batch(entry[1], entry[0]):
            return 0, 0, self.base_offset - 1
        return entry[1], entry[1], self.base_offset - 1

    def _out_of_order(self, position: int, what: str) -> DamagedError:
        return DamagedError(f"{self.file.path} is damaged: the batch at byte {position} {what}")

    def _near(self, offset: int) -> int:
        """A position at or before the batch that has an offset; the start if the index leads astray."""
        position = self.offset_index.lookup(offset)
        return position if position == 0 or self._has_batch(position, offset) else 0

    def _has_batch(self, position: int, offset: int, read: bytes | None = None) -> bool:
        """Whether a batch that begins at or before an offset is at a position, from where something may be read."""
        if not 0 <= position <= self.size - _HEADER_BYTES:
            return False
        if read is None:
            read = self.file.read_at(position, _HEADER_BYTES)
        base_offset, length, _ = _HEADER.unpack_from(read)
        whole = length > 0 and position + length + LOG_OVERHEAD <= self.size
        return bool(whole and self.base_offset <= base_offset <= offset)

    def _has_timestamp(self, timestamp: int, offset: int) -> bool:
        """Whether this is the largest timestamp of the batch that has an offset."""
        found = self.find(offset) if offset >= self.base_offset else None
        if found is None:
            return False
        data = self.file.read_at(found.position + _MAX_TIMESTAMP_AT, _MAX_TIMESTAMP.size)
        return len(data) == _MAX_TIMESTAMP.size and bool(_MAX_TIMESTAMP.unpack(data)[0] == timestamp)

    def batch_size_at(self, position: int) -> int:
        """The size of the batch at a position."""
        _, length, _ = _HEADER.unpack(self.file.read_at(position, _HEADER_BYTES))
        return int(length) + LOG_OVERHEAD

    def first_batch_timestamp(self) -> int:
        """The largest timestamp of the first batch: what rolling by time counts from; -1 if there is none."""
        if self.first_timestamp is None:
            if self.size < _MAX_TIMESTAMP_AT + 8:
                return NO_TIMESTAMP
            data = self.file.read_at(_MAX_TIMESTAMP_AT, _MAX_TIMESTAMP.size)
            self.first_timestamp = int(_MAX_TIMESTAMP.unpack(data)[0])
        return self.first_timestamp

    def search_timestamp(self, timestamp: int, from_offset: int) -> Search:
        """The first record from an offset on whose timestamp is at least this one."""
        start = self._near(max(self.time_index.lookup(timestamp), from_offset))
        for _, chunk, infos in BatchScan(self.file, start, self.size, chunk_bytes=_SEEK_BYTES):
            for info in infos:
                if info.max_timestamp < timestamp or info.last_offset < from_offset:
                    continue
                found = yield from self._seek(chunk, info, timestamp, from_offset)
                if found is not None:
                    return found
            yield
        return None

    def search_max_timestamp(self) -> Search:
        """The first record that has the segment's largest timestamp."""
        wanted = self.max_timestamp
        if wanted < 0:
            return None
        start = self._near(self._max_timestamp_offset)
        for _, chunk, infos in BatchScan(self.file, start, self.size, chunk_bytes=_SEEK_BYTES):
            for info in infos:
                if info.max_timestamp == wanted:
                    return (yield from self._seek(chunk, info, wanted, self.base_offset))
            yield
        return None

    def _seek(self, chunk: bytes, info: BatchInfo, timestamp: int, from_offset: int) -> Search:
        """The first such record of a batch, whose header may promise one that is not there."""
        walk = RecordScan(info.count, info.base_timestamp, info.is_log_append_time, info.max_timestamp)
        walk.seek(timestamp, from_offset - info.base_offset)
        try:
            for part in payload_parts(chunk, info):
                if walk.feed(part) and walk.found is not None:
                    found_at, delta = walk.found
                    return TimestampOffset(found_at, info.base_offset + delta, info.leader_epoch)
                yield
        except KafkaError as error:
            logger.warning("%s: cannot search the batch at offset %d: %s", self.file.path, info.base_offset, error)
        return None

    def truncate_to(self, offset: int, now_ms: int, config: LogConfig) -> int:
        """Cut from the batch that has an offset on; returns the first offset that went, or this one."""
        found = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if found:
            self.file.truncate(found.position)
            self.size = found.position
            self.unchecked = min(self.unchecked, self.size)
            self._checked = None
        self._since_entry = 0
        if self.size == 0:
            self.created_ms = now_ms
            self.first_timestamp = None
        self._check_full(config)
        self._max_timestamp, self._max_timestamp_offset = self._find_max_timestamp()
        return found.base_offset if found else offset

    def _find_max_timestamp(self) -> tuple[int, int]:
        timestamp, offset = self.time_index.last()
        for _, _, infos in BatchScan(self.file, self._near(offset), self.size):
            for info in infos:
                if info.max_timestamp > timestamp:
                    timestamp, offset = info.max_timestamp, info.last_offset
        return timestamp, offset

    def begin_rebuild(self) -> None:
        """Empty the indexes, whatever is in them, before `rebuild` is told the batches again."""
        path = self.path_of(files.INDEX)
        self._offset_index = OffsetIndex(self._disk.file(path), self.base_offset, OffsetIndex.sized(self._disk, path))
        self._offset_index.reset()
        path = self.path_of(files.TIME_INDEX)
        self._time_index = TimeIndex(self._disk.file(path), self.base_offset, TimeIndex.sized(self._disk, path))
        self._time_index.reset()
        self.txn_index.reset()
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._since_entry = 0

    def rebuild(self, batch: BatchInfo, position: int, config: LogConfig) -> None:
        """Index a batch that is in the file already."""
        if batch.max_timestamp > self.max_timestamp:
            self._max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = batch.last_offset
        if self._since_entry > config.index_interval_bytes:
            self._add_entry(batch.last_offset, position, config)
        self._since_entry += batch.size

    def end_rebuild(self, valid_bytes: int) -> int:
        """Keep only the batches that were indexed; says how many bytes went."""
        cut = self.file.size() - valid_bytes
        if cut:
            self.file.truncate(valid_bytes)
        self.size = valid_bytes
        self.unchecked, self.end_unchecked = 0, False
        self.first_timestamp = None
        self.finish_indexes()
        return cut

    def finish_indexes(self) -> None:
        """Note the largest timestamp for good and hand all entries to the files, as a closed segment has them."""
        if self._max_timestamp is not None and self._max_timestamp >= 0:
            self.time_index.append(self._max_timestamp, self._max_timestamp_offset)
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.flush()

    def index_end(self, last_offset: int) -> None:
        """Have the offset index end with the last batch, so that it tells should that be gone one day."""
        try:
            found = self.find(last_offset)
        except KafkaStorageError:
            return  # whoever reads it is told
        if found is not None and found.position > self.offset_index.last()[1] and not self.index_full:
            self.offset_index.append(last_offset, found.position)

    def seal(self) -> None:
        """Stop taking writes: indexes complete, nothing preallocated."""
        self.finish_indexes()
        if self.preallocated:
            self.preallocated = False
            if self.file.size() != self.size:
                self.file.truncate(self.size)

    def open_files(self) -> list[DiskFile]:
        """All files that exist of this segment, the log first."""
        found = [self.file, self.offset_index.file, self.time_index.file]
        if self.txn_index.file is not None:
            found.append(self.txn_index.file)
        return found

    def change_suffix(self, suffix: str) -> None:
        """Rename all files of a segment that takes no writes any more, the index first and the log last."""
        stem, _, _ = self.file.path.rpartition(files.LOG)
        for kind in (files.INDEX, files.TIME_INDEX, files.TXN_INDEX):
            path = self.path_of(kind)
            if self._disk.exists(path):
                self._disk.rename(path, stem + kind + suffix)
        self._offset_index = self._time_index = self._txn_index = None
        self.file.rename(stem + files.LOG + suffix)

    def moved(self, directory: str) -> None:
        """Be told that the directory was renamed."""
        self.file.moved(directory + "/" + self.file.path.rpartition("/")[2])
        if self._offset_index is not None:
            self._offset_index.file.moved(self.path_of(files.INDEX))
        if self._time_index is not None:
            self._time_index.file.moved(self.path_of(files.TIME_INDEX))
        self._txn_index = None

    def delete(self) -> None:
        """Remove all files; what a response still sends stays readable."""
        for kind in (files.INDEX, files.TIME_INDEX, files.TXN_INDEX):
            self._disk.unlink(self.path_of(kind))
        self.file.unlink()

    def close(self) -> None:
        """Give the descriptors back."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.file.close()
        if self._txn_index is not None and self._txn_index.file is not None:
            self._txn_index.file.close()
        self.file.close()


def jitter(stem: str, config: LogConfig) -> int:
    """How much earlier than segment.ms a segment rolls: spread over segments, and the same at every start."""
    if config.segment_jitter_ms <= 0:
        return 0
    return crc32(stem.encode()) % min(config.segment_jitter_ms, config.segment_ms)
