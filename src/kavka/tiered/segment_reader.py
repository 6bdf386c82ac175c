"""Reading remote segments: batches from an offset on, offsets by time, aborted transactions, epochs, producers.

Whole batches of the segment, found by their headers: an index only says where to begin, and one that misleads costs
time, never wrong records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final

from kavka.catalog.segment import RemoteSegment, TopicIdPartition
from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid
from kavka.records.batch import TRUNCATED, BatchInfo, records, scan_prefix
from kavka.storage.checkpoint import decode_epochs
from kavka.storage.txn_index import AbortedTransaction
from kavka.storage.txn_index import decode as decode_txn_index
from kavka.tiered.chunk_loader import ChunkLoader
from kavka.tiered.disk_cache import DiskCache
from kavka.tiered.objects.base import ObjectCorrupt, ObjectNotFound
from kavka.tiered.objects.manifest import Manifest, Part
from kavka.tiered.objects.segments import SegmentStore

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_LENGTH: Final = Struct(">i")
_LOG_OVERHEAD: Final = 12
_MANIFESTS: Final = 1000
_RECENT_BYTES: Final = 32 << 20
_SEARCH_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class RemoteBatches:
    """Whole batches of a segment, and where to go on."""

    data: bytes
    first_offset: int
    next_offset: int
    ends_segment: bool  # nothing of the segment (or of what may be read of it) follows


@dataclass(frozen=True, slots=True)
class FoundTime:
    """The first record at or after a time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class SegmentReader:
    """Reads remote segments through caches of indexes and chunks, while `run` runs."""

    def __init__(self, store: SegmentStore, loader: ChunkLoader, indexes: DiskCache, *, ahead: int = 2) -> None:
        self._store = store
        self._loader = loader
        self._indexes = indexes
        self._ahead = ahead
        self._manifests: OrderedDict[Uuid, Manifest] = OrderedDict()
        self._recent: OrderedDict[str, bytes] = OrderedDict()  # parts that were asked for lately
        self._recent_bytes = 0

    async def run(self) -> None:
        """Own what is being read, until cancelled."""
        await self._loader.run()

    async def read(
        self,
        name: TopicIdPartition,
        segment: RemoteSegment,
        offset: int,
        max_bytes: int,
        *,
        end_offset: int | None = None,
        following: RemoteSegment | None = None,
    ) -> RemoteBatches:
        """Batches from the one that has an offset on, at least one, else up to `max_bytes`.

        None that begins after `end_offset` (see `catalog.lineage.shared_end`). `following` is fetched ahead at the end.
        """
        manifest = await self._manifest(name, segment)
        log = _Log(self._loader, manifest)
        last = segment.end_offset if end_offset is None else min(end_offset, segment.end_offset)
        start = await _find(log, await self._position(manifest, offset), offset)
        if start is None:
            raise ObjectCorrupt(f"the remote segment {segment.id} has no offset {offset}")
        batches = await _collect(log, start, max_bytes, last)
        reached = (start + len(batches.data)) // manifest.chunk_bytes
        self._loader.prefetch(manifest, range(reached + 1, reached + 1 + self._ahead))
        if following is not None and (reached + self._ahead) * manifest.chunk_bytes >= log.size:
            self._loader.ahead_of_time(f"{following.id}.start", partial(self._prefetch_start, name, following))
        return batches

    async def offset_for_time(
        self, name: TopicIdPartition, segment: RemoteSegment, timestamp_ms: int, from_offset: int
    ) -> FoundTime | None:
        """The first record at or after a time, and at or after an offset; None if the segment has none."""
        manifest = await self._manifest(name, segment)
        log = _Log(self._loader, manifest)
        times = await self._part(manifest, Part.TIME_INDEX) or b""
        before = _floor(times, _TIME_ENTRY, timestamp_ms - 1)
        searched = max(from_offset, segment.start_offset + (before[1] if before is not None else 0))
        position: int | None = await _find(log, await self._position(manifest, searched), searched)
        while position is not None and position < log.size:
            data, infos = await log.batches(position, manifest.chunk_bytes)
            for info in infos:
                if info.max_timestamp >= timestamp_ms and info.last_offset >= from_offset:
                    for record in records(data, info):
                        if record.timestamp >= timestamp_ms and record.offset >= from_offset:
                            return FoundTime(record.timestamp, record.offset, info.leader_epoch)
            position += infos[-1].position + infos[-1].size
        return None

    async def aborted(
        self, name: TopicIdPartition, segment: RemoteSegment, from_offset: int, upper_bound: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions that touch [from, upper bound), and whether later segments have no more of them."""
        if segment.txn_index_empty:
            return [], False
        data = await self._part(await self._manifest(name, segment), Part.TXN_INDEX)
        found = []
        for entry in _decoded_txn_index(data or b""):
            if entry.last_offset >= from_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    async def leader_epochs(self, name: TopicIdPartition, segment: RemoteSegment) -> list[tuple[int, int]]:
        """The leader epochs of the log from its start to the segment's end: what a follower begins with."""
        data = await self._part(await self._manifest(name, segment), Part.LEADER_EPOCHS)
        if data is None:
            raise ObjectNotFound(f"the remote segment {segment.id} has no leader epochs")
        try:
            return decode_epochs(f"the leader epochs of {segment.id}", data)
        except KafkaStorageError as error:
            raise ObjectCorrupt(str(error)) from None

    async def producer_snapshot(self, name: TopicIdPartition, segment: RemoteSegment) -> bytes | None:
        """The producers' state after the segment, as its file has it."""
        return await self._part(await self._manifest(name, segment), Part.PRODUCER_SNAPSHOT)

    async def forget(self, segment_id: Uuid) -> None:
        """Give up all that is kept of a segment that is gone."""
        self._manifests.pop(segment_id, None)
        for key in [key for key in self._recent if key.startswith(f"{segment_id}.")]:
            self._recent_bytes -= len(self._recent.pop(key))
        await self._loader.forget(segment_id)
        await self._indexes.drop_of(f"{segment_id}.")

    async def _prefetch_start(self, name: TopicIdPartition, segment: RemoteSegment) -> None:
        manifest = await self._manifest(name, segment)
        self._loader.prefetch(manifest, range(self._ahead))
        await self._part(manifest, Part.OFFSET_INDEX)

    async def _manifest(self, name: TopicIdPartition, segment: RemoteSegment) -> Manifest:
        manifest = self._manifests.get(segment.id)
        if manifest is None:
            load = partial(self._load_manifest, name, segment)
            manifest = self._manifests[segment.id] = await self._loader.shared(f"{segment.id}.manifest", load)
            if len(self._manifests) > _MANIFESTS:
                self._manifests.popitem(last=False)
        else:
            self._manifests.move_to_end(segment.id)
        return manifest

    async def _load_manifest(self, name: TopicIdPartition, segment: RemoteSegment) -> Manifest:
        key = f"{segment.id}.manifest"
        data = await self._indexes.get(key)
        if data is not None:
            try:
                return self._store.parse_manifest(name, segment, data)
            except ObjectCorrupt:
                await self._indexes.drop([key])
        manifest, data = await self._store.fetch_manifest(name, segment)
        if data is not None:
            await self._indexes.put(key, data)
        return manifest

    async def _part(self, manifest: Manifest, part: Part) -> bytes | None:
        if part not in manifest.parts:
            return None
        key = f"{manifest.segment.id}.{part.value}"
        data = self._recent.get(key)
        if data is None:
            return await self._loader.shared(key, partial(self._load_part, manifest, part, key))
        self._recent.move_to_end(key)
        return data

    async def _load_part(self, manifest: Manifest, part: Part, key: str) -> bytes:
        data = await self._indexes.get(key)
        if data is None or len(data) != manifest.parts[part].size:
            data = await self._store.read_part(manifest, part)
            await self._indexes.put(key, data)
        self._recent_bytes += len(data) - len(self._recent.pop(key, b""))
        self._recent[key] = data
        while self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1:
            self._recent_bytes -= len(self._recent.popitem(last=False)[1])
        return data

    async def _position(self, manifest: Manifest, offset: int) -> int:
        index = await self._part(manifest, Part.OFFSET_INDEX) or b""
        found = _floor(index, _OFFSET_ENTRY, offset - manifest.segment.start_offset)
        position = found[1] if found is not None else 0
        return position if 0 <= position < manifest.parts[Part.LOG].size else 0


class _NoBatches(ObjectCorrupt):
    """No batches begin here, although the bytes may be those that were stored."""


class _Log:
    """The bytes of a segment's log, wherever its chunks are."""

    __slots__ = ("_check_crc", "_loader", "_manifest", "size")

    def __init__(self, loader: ChunkLoader, manifest: Manifest) -> None:
        self._loader = loader
        self._manifest = manifest
        self.size = manifest.parts[Part.LOG].size
        self._check_crc = manifest.parts[Part.LOG].checksums is None  # no one else has checked these bytes

    def rest_of_chunk(self, position: int) -> int:
        """How many bytes from a position on come with the chunk that has it."""
        return self._manifest.chunk_bytes - position % self._manifest.chunk_bytes

    async def read(self, start: int, length: int) -> bytes:
        length = min(length, self.size - start)
        if length <= 0:
            return b""
        chunk_bytes = self._manifest.chunk_bytes
        first, last = start // chunk_bytes, (start + length - 1) // chunk_bytes
        chunks = await self._loader.chunks(self._manifest, first, last)
        skip = start - first * chunk_bytes
        if len(chunks) == 1:
            return chunks[0][skip : skip + length]
        pieces: list[bytes | memoryview] = [memoryview(chunks[0])[skip:], *chunks[1:-1]]
        pieces.append(memoryview(chunks[-1])[: start + length - last * chunk_bytes])
        return b"".join(pieces)  # copied once: these are megabytes

    async def batches(self, position: int, length: int) -> tuple[bytes, list[BatchInfo]]:
        """The whole batches that begin within `length` bytes of a position, at least one."""
        while True:
            data = await self.read(position, length)
            infos, _, reason = scan_prefix(data, 0, -1, self._check_crc)
            if reason is not None and (reason != TRUNCATED or position + len(data) >= self.size):
                raise _NoBatches(f"the log of {self._manifest.segment.id} after {position}: {reason}")
            if infos:
                return data, infos
            length = max(length * 2, _whole(data))


async def _find(log: _Log, position: int, offset: int) -> int | None:
    """Where the batch begins that has an offset (or the next one, where compaction left none); None after the end."""
    try:
        return await _find_from(log, position, offset)
    except _NoBatches:
        if position == 0:
            raise
    return await _find_from(log, 0, offset)  # the index misled us


async def _find_from(log: _Log, position: int, offset: int) -> int | None:
    while position < log.size:
        _, infos = await log.batches(position, min(log.rest_of_chunk(position), _SEARCH_BYTES))
        if position and infos[0].base_offset > offset:
            raise _NoBatches("the index points behind the offset")
        for info in infos:
            if info.last_offset >= offset:
                return position + info.position
        position += infos[-1].position + infos[-1].size
    return None


async def _collect(log: _Log, start: int, max_bytes: int, last_offset: int) -> RemoteBatches:
    data, infos = await log.batches(start, max(max_bytes, _LOG_OVERHEAD))
    if infos[0].base_offset > last_offset:
        return RemoteBatches(b"", last_offset + 1, last_offset + 1, True)
    size, next_offset, ends = 0, infos[0].base_offset, False
    for info in infos:
        if size and (info.base_offset > last_offset or size + info.size > max_bytes):
            ends = info.base_offset > last_offset
            break
        size, next_offset = info.position + info.size, info.last_offset + 1
    ends = ends or next_offset > last_offset or start + size >= log.size
    return RemoteBatches(data[:size], infos[0].base_offset, next_offset, ends)


def _whole(data: bytes) -> int:
    """How many bytes the first batch needs, as far as its header is there."""
    if len(data) < _LOG_OVERHEAD:
        return _LOG_OVERHEAD
    length: int = _LENGTH.unpack_from(data, 8)[0]
    return length + _LOG_OVERHEAD


def _floor(index: bytes, entry: Struct, target: int) -> tuple[int, int] | None:
    """The last entry whose first field is at most the target."""
    slots = range(len(index) // entry.size)
    slot = bisect_right(slots, target, key=lambda slot: entry.unpack_from(index, slot * entry.size)[0]) - 1
    if slot < 0:
        return None
    first, second = entry.unpack_from(index, slot * entry.size)
    return first, second


def _decoded_txn_index(data: bytes) -> list[AbortedTransaction]:
    try:
        return decode_txn_index(data)
    except KafkaStorageError as error:
        raise ObjectCorrupt(str(error)) from None
