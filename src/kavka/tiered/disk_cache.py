"""A bounded cache of bytes on disk: chunks and indexes of remote segments.

It is trimmed before an entry is written, so it is never over its limit; it is found again after a restart; and an entry
that is not what was written (torn by a crash, spoiled by the disk) is noticed and forgotten. A disk that fails costs
the cache, never the read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeVar

from crc32c import crc32c

from kavka.storage.disk import Disk

logger = logging.getLogger(__name__)

T = TypeVar("T")

_HEAD: Final = Struct(">4sIQ")
_MAGIC: Final = b"KVC1"
_WRITING: Final = ".tmp"


@dataclass(slots=True)
class CacheCounts:
    """What happened to a cache since the start."""

    hits: int = 0
    misses: int = 0
    evicted: int = 0
    corrupt: int = 0
    failed: int = 0  # the disk would not


class DiskCache:
    """Entries by key (letters, digits, '_', '-' and '.'), the longest unused given up first; owned by one loop."""

    def __init__(self, disk: Disk, folder: str, max_bytes: int, threads: Executor) -> None:
        self._disk = disk
        self._folder = folder
        self._threads = threads
        self._entries: OrderedDict[str, int] = OrderedDict()
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.counts = CacheCounts()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    async def load(self) -> None:
        """Find what an earlier run has left, the newest last."""
        try:
            found = await self._run(self._scan)
        except OSError as error:
            self.counts.failed += 1
            logger.warning("the cache in %s cannot be read: %s", self._folder, error)
            return
        for key, size in found:
            self._entries[key] = size
            self.used_bytes += size
        await self._remove(self._make_room(0))

    async def get(self, key: str) -> bytes | None:
        """An entry, if it is there and sound."""
        if key not in self._entries:
            self.counts.misses += 1
            return None
        self._entries.move_to_end(key)
        try:
            data = await self._run(lambda: self._read(key))
        except FileNotFoundError:  # given up in the meantime, or removed behind our back
            data = None
        except OSError:
            self.counts.failed += 1
            data = None
        else:
            self.counts.corrupt += data is None
        if data is None:
            self.counts.misses += 1
            await self.drop([key])
            return None
        self.counts.hits += 1
        return data

    async def put(self, key: str, data: bytes) -> None:
        """Keep an entry, giving up others for it first."""
        size = len(data) + _HEAD.size
        if size > self.max_bytes:
            return
        replaced = self._entries.pop(key, 0)
        self.used_bytes -= replaced
        gone = [key] * bool(replaced) + self._make_room(size)
        self.used_bytes += size
        self._entries[key] = size
        try:
            await self._run(lambda: self._write(key, data, gone))
        except OSError:
            self.counts.failed += 1
            await self.drop([key])
        else:
            if key not in self._entries:  # given up while it was written
                await self.drop([key])

    async def drop(self, keys: list[str]) -> None:
        """Forget entries."""
        for key in keys:
            self.used_bytes -= self._entries.pop(key, 0)
        await self._remove(keys)

    async def drop_of(self, prefix: str) -> None:
        """Forget all entries whose keys begin like this: those of a segment that is gone."""
        await self.drop([key for key in self._entries if key.startswith(prefix)])

    async def _remove(self, keys: list[str]) -> None:
        try:
            await self._run(lambda: self._unlink(keys))
        except OSError:
            self.counts.failed += 1  # it is found again with the next start, and checked when it is read

    def _make_room(self, size: int) -> list[str]:
        gone = []
        while self._entries and self.used_bytes + size > self.max_bytes:
            key, freed = self._entries.popitem(last=False)
            self.used_bytes -= freed
            self.counts.evicted += 1
            gone.append(key)
        return gone

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}"

    def _scan(self) -> list[tuple[str, int]]:
        self._disk.mkdir(self._folder)
        found = []
        for name in self._disk.listdir(self._folder):
            path = self._path(name)
            if name.endswith(_WRITING):
                self._disk.unlink(path)
            elif not self._disk.is_dir(path):
                found.append((self._disk.modified_ms(path), name, self._disk.size(path)))
        return [(name, size) for _, name, size in sorted(found)]

    def _read(self, key: str) -> bytes | None:
        data = self._disk.read_file(self._path(key))
        if len(data) < _HEAD.size:
            return None
        magic, checksum, length = _HEAD.unpack_from(data)
        if magic != _MAGIC or length != len(data) - _HEAD.size:
            return None
        body = data[_HEAD.size :]
        return body if crc32c(body, crc32c(key.encode())) == checksum else None

    def _write(self, key: str, data: bytes, gone: list[str]) -> None:
        self._unlink(gone)
        path = self._path(key)
        self._disk.write_file(path + _WRITING, _HEAD.pack(_MAGIC, crc32c(data, crc32c(key.encode())), len(data)) + data)
        self._disk.rename(path + _WRITING, path)

    def _unlink(self, keys: list[str]) -> None:
        for key in keys:
            self._disk.unlink(self._path(key))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
