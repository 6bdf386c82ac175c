"""The sparse indexes of a segment: offset -> position (8-byte entries) and timestamp -> offset (12-byte entries).

New entries wait in a small buffer and reach the file when it fills, and on roll, sync and close: after an unclean stop
the index of the segment that was being written is rebuilt from the log anyway. Lookups search file and buffer, and keep
the page of the file they searched last: a reader's next lookup is near.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import ClassVar

from kavka.storage.disk import Disk, DiskFile

_BUFFER_BYTES = 4096
_PAGE_ENTRIES = 512
_NO_ENTRY = (-1, 0, 0)
NO_TIMESTAMP = -1


class SparseIndex:
    """Entries of two integers that both grow; the file is opened when it is first needed."""

    __slots__ = ("_buffer", "_file", "_page", "_page_slot", "base_offset", "stored")

    entry: ClassVar[struct.Struct]

    def __init__(self, file: DiskFile, base_offset: int, stored: int) -> None:
        self._file = file
        self.base_offset = base_offset
        self.stored = stored
        self._buffer = bytearray()
        self._page = b""
        self._page_slot = 0

    @classmethod
    def sized(cls, disk: Disk, path: str) -> int:
        """How many whole entries a file has; 0 if it is not there."""
        try:
            return disk.size(path) // cls.entry.size
        except FileNotFoundError:
            return 0

    def __len__(self) -> int:
        return self.stored + len(self._buffer) // self.entry.size

    @property
    def file(self) -> DiskFile:
        """The file, which lacks what is still in the buffer."""
        return self._file

    def flush(self) -> None:
        """Hand the buffered entries to the file."""
        if self._buffer:
            size = self.entry.size
            self._file.write_at(self.stored * size, [self._buffer], len(self._buffer))
            self.stored += len(self._buffer) // size
            self._buffer.clear()

    def reset(self) -> None:
        """Forget every entry."""
        self._truncate_entries(0)

    def trim(self) -> None:
        """Make the file end after its last entry."""
        self.flush()
        self._file.truncate(self.stored * self.entry.size)

    def _push(self, first: int, second: int) -> None:
        self._buffer += self.entry.pack(first, second)
        if len(self._buffer) >= _BUFFER_BYTES:
            self.flush()

    def _get(self, slot: int) -> tuple[int, int]:
        size = self.entry.size
        first: int
        second: int
        if slot >= self.stored:
            first, second = self.entry.unpack_from(self._buffer, (slot - self.stored) * size)
        else:
            first, second = self.entry.unpack(self._file.read_at(slot * size, size))
        return first, second

    def _floor(self, field: int, target: int) -> int:
        """The last slot whose field is at most the target, or -1."""
        return self._floor_entry(field, target)[0]

    def _floor_entry(self, field: int, target: int) -> tuple[int, int, int]:
        """The last slot whose field is at most the target, with its entry; slot -1 if there is none."""
        if self._buffer and self.entry.unpack_from(self._buffer, 0)[field] <= target:
            return self._floor_in(self._buffer, self.stored, field, target)
        page, size = self._page, self.entry.size
        unpack = self.entry.unpack_from
        if not page or not unpack(page, 0)[field] <= target < unpack(page, len(page) - size)[field]:
            pages = range(-(-self.stored // _PAGE_ENTRIES))
            number = bisect_right(pages, target, key=lambda number: self._get(number * _PAGE_ENTRIES)[field]) - 1
            if number < 0:
                return _NO_ENTRY
            slot = number * _PAGE_ENTRIES
            page = self._file.read_at(slot * size, min(_PAGE_ENTRIES, self.stored - slot) * size)
            self._page, self._page_slot = page, slot
        return self._floor_in(page, self._page_slot, field, target)

    def _floor_in(self, data: bytes | bytearray, start: int, field: int, target: int) -> tuple[int, int, int]:
        size = self.entry.size
        unpack = self.entry.unpack_from
        slot = bisect_right(range(len(data) // size), target, key=lambda slot: unpack(data, slot * size)[field]) - 1
        if slot < 0:
            return _NO_ENTRY
        first, second = unpack(data, slot * size)
        return start + slot, first, second

    def _truncate_entries(self, entries: int) -> None:
        size = self.entry.size
        if entries >= self.stored:
            del self._buffer[(entries - self.stored) * size :]
            return
        self._buffer.clear()
        self._page = b""
        self._file.truncate(entries * size)
        self.stored = entries


class OffsetIndex(SparseIndex):
    """Where in the segment to start looking for an offset."""

    __slots__ = ()

    entry = struct.Struct(">ii")

    def append(self, offset: int, position: int) -> None:
        """Note that the batch at a position ends with an offset."""
        self._push(offset - self.base_offset, position)

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that has this offset, as near as the index knows."""
        slot, _, position = self._floor_entry(0, offset - self.base_offset)
        return position if slot >= 0 else 0

    def last(self) -> tuple[int, int]:
        """The newest (offset, position); (base offset, 0) if there is none."""
        count = len(self)
        if count == 0:
            return self.base_offset, 0
        offset, position = self._get(count - 1)
        return self.base_offset + offset, position

    def offset_after(self, position: int) -> int | None:
        """The offset of the first entry at or after a position; None if the index ends before."""
        slot, found, at = self._floor_entry(1, position)
        if slot >= 0 and at == position:
            return self.base_offset + found
        return self.base_offset + self._get(slot + 1)[0] if slot + 1 < len(self) else None

    def entry_before(self, position: int) -> tuple[int, int]:
        """The last (offset, position) before a position; (base offset, 0) if there is none."""
        slot, offset, at = self._floor_entry(1, position - 1)
        return (self.base_offset + offset, at) if slot >= 0 else (self.base_offset, 0)

    def truncate_to(self, offset: int) -> None:
        """Forget entries of this offset and later ones."""
        self._truncate_entries(self._floor(0, offset - self.base_offset - 1) + 1)


class TimeIndex(SparseIndex):
    """The largest timestamp up to an offset."""

    __slots__ = ("_last_timestamp",)

    entry = struct.Struct(">qi")

    def __init__(self, file: DiskFile, base_offset: int, stored: int) -> None:
        super().__init__(file, base_offset, stored)
        self._last_timestamp: int | None = None

    def append(self, timestamp: int, offset: int) -> None:
        """Note the largest timestamp so far and its batch's last offset; only a growing one is kept."""
        last = self._last_timestamp
        if last is None:
            last = self.last()[0]
        if timestamp > last:
            self._push(timestamp, offset - self.base_offset)
            self._last_timestamp = timestamp

    def lookup(self, timestamp: int) -> int:
        """An offset before which every timestamp is smaller than this one, as near as the index knows."""
        slot, _, offset = self._floor_entry(0, timestamp)
        return self.base_offset + offset if slot >= 0 else self.base_offset

    def last(self) -> tuple[int, int]:
        """The newest (timestamp, offset); (-1, base offset) if there is none."""
        count = len(self)
        if count == 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, offset = self._get(count - 1)
        return timestamp, self.base_offset + offset

    def truncate_to(self, offset: int) -> None:
        """Forget entries of this offset and later ones."""
        self._truncate_entries(self._floor(1, offset - self.base_offset - 1) + 1)

    def _truncate_entries(self, entries: int) -> None:
        super()._truncate_entries(entries)
        self._last_timestamp = None
