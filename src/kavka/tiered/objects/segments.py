"""The segments in an object store: put, described, read chunk by chunk, listed and deleted.

Never wrong bytes: every chunk is checked before anyone sees it. Chunks are read from files and sealed in threads.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from kavka.catalog.segment import RemoteSegment, TopicIdPartition
from kavka.model.errors import KafkaStorageError
from kavka.tiered.objects.base import Content, ObjectCorrupt, ObjectInfo, ObjectNotFound, ObjectStore, list_objects
from kavka.tiered.objects.layout import MANIFEST, Layout, SegmentRef, keys_of
from kavka.tiered.objects.manifest import (
    Manifest,
    Part,
    PartEntry,
    decode_custom,
    decode_manifest,
    encode_custom,
    encode_manifest,
)
from kavka.tiered.objects.sealing import Sealer, Sealing, checksum, new_data_key, place_of

T = TypeVar("T")

CHUNK_BYTES: Final = 1 << 20
_READS_OF_CORRUPT: Final = 2


class Readable(Protocol):
    """A file of a segment: `storage.disk.DiskFile` is one."""

    def size(self) -> int:
        """How long it is."""

    def read_at(self, position: int, length: int) -> bytes:
        """Its bytes; called from a thread, so a DiskFile is pinned before."""


class Stored(NamedTuple):
    """An object that belongs to a segment."""

    ref: SegmentRef
    object: str
    info: ObjectInfo


class BadManifest(NamedTuple):
    """A manifest that cannot be used, and why."""

    ref: SegmentRef
    reason: str
    unreadable: bool
    """Whether it is not understood; else something that it names is not there."""


class _Bytes:
    """Bytes that stand for a file."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]


class SegmentStore:
    """The segments in a store; the first layout is written, all are read."""

    def __init__(
        self,
        store: ObjectStore,
        layouts: Sequence[Layout],
        threads: Executor,
        sealing: Sealing | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.objects = store
        self._layouts = layouts
        self._threads = threads
        self._sealing = sealing or Sealing()
        self._chunk_bytes = chunk_bytes

    async def put(
        self, name: TopicIdPartition, segment: RemoteSegment, files: Mapping[Part, Readable | bytes]
    ) -> bytes:
        """Store a segment's files, and its manifest when they are all there; answers its custom metadata.

        A failure leaves what was stored so far: the caller moves the segment to DELETE_SEGMENT_STARTED and deletes it.
        """
        layout, ref, sealing = self._layouts[0], SegmentRef.of(name, segment), self._sealing
        place, data_key = place_of(name, segment), new_data_key() if sealing.keys is not None else None
        wrapped = sealing.keys.wrap(data_key, place) if sealing.keys is not None and data_key is not None else None
        sealer = Sealer(place, sealing.compress, data_key)
        parts: dict[Part, PartEntry] = {}
        for object, members in layout.objects():
            sources = {part: _readable(files[part]) for part in members if part in files}
            if sources:
                upload = _Upload(layout.key(ref, object), sources, self._chunk_bytes, sealer, self._run)
                await self._stored(upload.key, Content(upload.size, upload.chunks))
                parts.update(upload.entries)
        manifest = Manifest(name, segment, self._chunk_bytes, sealing.compress, wrapped, parts)
        data = encode_manifest(manifest, sealer)
        await self._stored(layout.key(ref, MANIFEST), Content.of(data))
        return encode_custom(manifest, data)

    async def manifest(self, name: TopicIdPartition, segment: RemoteSegment) -> Manifest:
        """What is stored of a segment; ObjectNotFound if it is not there."""
        return (await self.fetch_manifest(name, segment))[0]

    async def fetch_manifest(self, name: TopicIdPartition, segment: RemoteSegment) -> tuple[Manifest, bytes | None]:
        """The same with its bytes, which `parse_manifest` takes again; None if a JVM broker stored the segment."""
        ref = SegmentRef.of(name, segment)
        for layout in self._layouts:
            try:
                data = await self._whole(layout.key(ref, MANIFEST))
            except ObjectNotFound:
                continue
            return self.parse_manifest(name, segment, data), data
        if decode_custom(segment.custom_metadata) is None:
            for layout in self._layouts:
                if layout.is_kafkas:
                    return await self._kafkas(layout, name, segment), None
        raise ObjectNotFound(f"there is no manifest of {ref.id}")

    def parse_manifest(self, name: TopicIdPartition, segment: RemoteSegment, data: bytes) -> Manifest:
        """The manifest in these bytes, if it is the one that the catalogue knows of this segment."""
        known = decode_custom(segment.custom_metadata)
        if known is not None and checksum(data) != known.manifest_checksum:
            raise ObjectCorrupt(f"the manifest of {segment.id} is not the one that the catalogue knows")
        manifest = decode_manifest(data, self._sealing.keys)
        same_place = manifest.name[:2] == name[:2]
        if not same_place or SegmentRef.of(manifest.name, manifest.segment)[1:] != SegmentRef.of(name, segment)[1:]:
            raise ObjectCorrupt(f"the manifest of {segment.id} is that of another segment")
        return manifest

    async def read_chunks(self, manifest: Manifest, part: Part, first: int, count: int) -> list[bytes]:
        """Consecutive chunks of a part, in one request, checked and opened."""
        entry = manifest.parts[part]
        sizes = entry.stored[first : first + count]
        start, length = entry.position + sum(entry.stored[:first]), sum(sizes)
        tries = 0
        while True:
            tries += 1
            data = await self.objects.read(entry.key, start, length)
            try:
                return await self._run(partial(self._opened, manifest, part, first, sizes, data))
            except ObjectCorrupt as error:
                if tries >= _READS_OF_CORRUPT:
                    raise ObjectCorrupt(f"{entry.key} at {start}: {error}") from None

    async def read_part(self, manifest: Manifest, part: Part) -> bytes:
        """A whole part that the manifest has."""
        return b"".join(await self.read_chunks(manifest, part, 0, len(manifest.parts[part].stored)))

    async def delete(self, ref: SegmentRef) -> None:
        """Remove all that is stored of a segment, and be content if it is gone."""
        await self.objects.delete(keys_of(self._layouts, ref))

    async def stored(self) -> AsyncIterator[Stored]:
        """Every object in the store that belongs to a segment: what a scrub compares with the catalogue."""
        async for info in list_objects(self.objects):
            for layout in self._layouts:
                found = layout.parse(info.key)
                if found is not None:
                    yield Stored(*found, info)
                    break

    async def recovered(self) -> AsyncIterator[tuple[TopicIdPartition, RemoteSegment] | BadManifest]:
        """Every whole segment in the store, as a catalogue has it: enough to build one anew. Sizes are checked."""
        async for stored in self.stored():
            if stored.object == MANIFEST:
                yield await self.recover(stored)

    async def find_manifest(self, segment_id: str) -> Manifest | None:
        """The manifest of a segment of which nothing but the id is known."""
        async for stored in self.stored():
            if stored.object == MANIFEST and str(stored.ref.id) == segment_id:
                return decode_manifest(await self._whole(stored.info.key), self._sealing.keys)
        return None

    async def recover(self, stored: Stored) -> tuple[TopicIdPartition, RemoteSegment] | BadManifest:
        """The segment whose manifest an object is, as a catalogue has it, if it is whole."""
        found = await self._recover(stored)
        if isinstance(found, BadManifest) and found.unreadable:
            found = await self._recover(stored)  # it may have been spoiled on the way
        return found

    async def _recover(self, stored: Stored) -> tuple[TopicIdPartition, RemoteSegment] | BadManifest:
        try:
            data = await self._whole(stored.info.key)
            manifest = decode_manifest(data, self._sealing.keys)
            if SegmentRef.of(manifest.name, manifest.segment) != stored.ref:
                raise ObjectCorrupt("a manifest of another segment")
            if missing := await self._missing(manifest):
                raise ObjectNotFound("; ".join(missing))
        except (ObjectCorrupt, ObjectNotFound) as error:
            return BadManifest(stored.ref, str(error), isinstance(error, ObjectCorrupt))
        return manifest.name, manifest.segment._replace(custom_metadata=encode_custom(manifest, data))

    async def custom_of(self, name: TopicIdPartition, segment: RemoteSegment) -> bytes | None:
        """What the catalogue is to remember of a segment that is stored as a whole; None if it is not."""
        for _ in range(_READS_OF_CORRUPT):
            try:
                manifest, data = await self.fetch_manifest(name, segment)
                whole = data is not None and not await self._missing(manifest)
            except ObjectCorrupt:
                continue
            except ObjectNotFound:
                break
            return encode_custom(manifest, data) if data is not None and whole else None
        return None

    async def faults(self, name: TopicIdPartition, segment: RemoteSegment, *, deep: bool = False) -> list[str]:
        """What is wrong with a stored segment: sizes, and if `deep` every byte."""
        try:
            manifest = await self.manifest(name, segment)
        except (ObjectCorrupt, ObjectNotFound) as error:
            return [str(error)]
        found = await self._missing(manifest)
        if deep and not found:
            for part, entry in manifest.parts.items():
                for number in range(len(entry.stored)):
                    try:
                        await self.read_chunks(manifest, part, number, 1)
                    except (ObjectCorrupt, ObjectNotFound) as error:
                        found.append(str(error))
        return found

    async def _missing(self, manifest: Manifest) -> list[str]:
        """The objects of a segment that are not there, or not of their size."""
        sizes: dict[str, int] = {}
        for entry in manifest.parts.values():
            sizes[entry.key] = max(sizes.get(entry.key, 0), entry.position + entry.stored_size)
        found = []
        for key, size in sizes.items():
            try:
                there = (await self.objects.head(key)).size
            except ObjectNotFound:
                found.append(f"{key} is not there")
            else:
                if there != size:
                    found.append(f"{key} has {there} bytes, not {size}")
        return found

    async def _stored(self, key: str, content: Content) -> None:
        size = await self.objects.put(key, content)
        there = (await self.objects.head(key)).size
        if there != size:
            raise ObjectCorrupt(f"{key} has {there} bytes after {size} were stored")

    async def _whole(self, key: str) -> bytes:
        return await self.objects.read(key, 0, (await self.objects.head(key)).size)

    async def _kafkas(self, layout: Layout, name: TopicIdPartition, segment: RemoteSegment) -> Manifest:
        """What a JVM broker stored: no checksums, so whoever reads the log checks its batches."""
        parts: dict[Part, PartEntry] = {}
        for part in Part:
            key = layout.key(SegmentRef.of(name, segment), part.value)
            try:
                size = (await self.objects.head(key)).size
            except ObjectNotFound:
                continue
            parts[part] = PartEntry(key, 0, size, _sizes(size, self._chunk_bytes), None)
        if Part.LOG not in parts:
            raise ObjectNotFound(f"nothing is stored of {segment.id}")
        if parts[Part.LOG].size != segment.size_bytes:
            raise ObjectCorrupt(f"{parts[Part.LOG].key} has {parts[Part.LOG].size} bytes, not {segment.size_bytes}")
        return Manifest(name, segment, self._chunk_bytes, False, None, parts)

    def _opened(self, manifest: Manifest, part: Part, first: int, sizes: Sequence[int], data: bytes) -> list[bytes]:
        sealer, checksums = manifest.sealer(self._sealing.keys), manifest.parts[part].checksums
        view, position, chunks = memoryview(data), 0, []
        for number, size in enumerate(sizes, first):
            stored = view[position : position + size]
            position += size
            if checksums is not None and checksum(stored) != checksums[number]:
                raise ObjectCorrupt(f"chunk {number} has another checksum")
            whole = data if len(sizes) == 1 else bytes(stored)  # not copied where it need not be: it is a megabyte
            chunks.append(sealer.open(part.number, number, whole, manifest.chunk_size(part, number)))
        return chunks

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class _Upload:
    """One object on its way: the parts in it, chunk by chunk, and what is to be remembered of them."""

    def __init__(
        self,
        key: str,
        sources: Mapping[Part, Readable],
        chunk_bytes: int,
        sealer: Sealer,
        run: Callable[[Callable[[], bytes]], Awaitable[bytes]],
    ) -> None:
        self.key = key
        self.size = sum(source.size() for source in sources.values())
        self.entries: dict[Part, PartEntry] = {}
        self._sources = sources
        self._chunk_bytes = chunk_bytes
        self._sealer = sealer
        self._run = run

    async def chunks(self) -> AsyncIterator[bytes]:
        """The sealed chunks; an attempt that comes again begins again."""
        self.entries.clear()
        position = 0
        for part, source in self._sources.items():
            size, stored, checksums = source.size(), array("I"), array("I")
            for number, length in enumerate(_sizes(size, self._chunk_bytes)):
                sealed = await self._run(partial(self._sealed, part, number, length))
                stored.append(len(sealed))
                checksums.append(checksum(sealed))
                yield sealed
            self.entries[part] = PartEntry(self.key, position, size, stored, checksums)
            position += sum(stored)

    def _sealed(self, part: Part, number: int, length: int) -> bytes:
        data = self._sources[part].read_at(number * self._chunk_bytes, length)
        if len(data) != length:
            raise KafkaStorageError(f"the file {part.value} of a segment became shorter while it was copied")
        return self._sealer.seal(part.number, number, data)


def _readable(source: Readable | bytes) -> Readable:
    return _Bytes(source) if isinstance(source, bytes) else source


def _sizes(size: int, chunk_bytes: int) -> array[int]:
    whole, rest = divmod(size, chunk_bytes)
    return array("I", [chunk_bytes] * whole + [rest] * bool(rest))
