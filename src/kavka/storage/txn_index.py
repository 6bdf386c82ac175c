"""The aborted transactions whose markers are in a segment: 34-byte entries, version first.

The file exists only once a transaction was aborted in the segment.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kavka.model.errors import KafkaStorageError
from kavka.storage.disk import Disk, DiskFile

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction: its first data offset, its marker's offset, the last stable offset after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(aborted: AbortedTransaction) -> bytes:
    """One entry's bytes."""
    return _ENTRY.pack(_VERSION, *aborted)


def decode(data: bytes) -> list[AbortedTransaction]:
    """The entries of a file; a torn last one is left out."""
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size]):
        if version > _VERSION:
            raise KafkaStorageError(f"transaction index entry of version {version}; {_VERSION} is the newest known")
        entries.append(AbortedTransaction(*fields))
    return entries


class TransactionIndex:
    """The aborted transactions of one segment."""

    __slots__ = ("_disk", "_file", "_size", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._file: DiskFile | None = None
        try:
            size = disk.size(path)
        except FileNotFoundError:
            size = -1
        else:
            self._file = disk.file(path)
        self._size = size - size % _ENTRY.size if size >= 0 else 0

    @property
    def file(self) -> DiskFile | None:
        """The file, if a transaction was ever aborted here."""
        return self._file

    def append(self, aborted: AbortedTransaction) -> None:
        """Note one more."""
        if self._file is None:
            self._file = self._disk.create(self.path)
        self._file.write_at(self._size, [encode(aborted)], _ENTRY.size)
        self._size += _ENTRY.size

    def entries(self) -> list[AbortedTransaction]:
        """All of them, by the offset of their markers."""
        if self._file is None or self._size == 0:
            return []
        try:
            return decode(self._file.read_at(0, self._size))
        except KafkaStorageError as error:
            raise KafkaStorageError(f"{self.path}: {error.message}") from None

    def truncate_to(self, offset: int) -> None:
        """Forget those whose markers are at or after an offset."""
        if self._file is None or self._size == 0:
            return
        keep = sum(1 for aborted in self.entries() if aborted.last_offset < offset) * _ENTRY.size
        if keep < self._size:
            self._file.truncate(keep)
            self._size = keep

    def reset(self) -> None:
        """Forget all."""
        if self._file is not None:
            self._file.truncate(0)
            self._size = 0
