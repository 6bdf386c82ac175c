"""Remote segments for readers that have no broker in the path: whole stretches of a log, and what decides about them.

Nothing is cached: each byte is wanted once. A stretch is several requests side by side.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from struct import Struct
from typing import Final

from kavka.catalog.segment import Epochs, RemoteSegment, TopicIdPartition
from kavka.model.errors import KafkaStorageError
from kavka.records.batch import TRUNCATED, BatchInfo, scan_prefix
from kavka.storage.checkpoint import decode_epochs
from kavka.storage.producer_snapshot import decode_snapshot
from kavka.storage.txn_index import AbortedTransaction
from kavka.storage.txn_index import decode as decode_txn_index
from kavka.tiered.objects.base import ObjectCorrupt, ObjectNotFound
from kavka.tiered.objects.manifest import Manifest, Part
from kavka.tiered.objects.segments import SegmentStore

_RUN: Final = 4
"""Chunks in one request."""
_SIDE_BY_SIDE: Final = 4
"""Requests for one stretch."""
_OFFSET_ENTRY: Final = Struct(">ii")


class DirectReader:
    """Reads the segments of a store."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store

    async def leader_epochs(self, name: TopicIdPartition, segment: RemoteSegment) -> Epochs:
        """The leader epochs of the log from its start to the segment's end."""
        data = await self._part(await self._store.manifest(name, segment), Part.LEADER_EPOCHS)
        if data is None:
            raise ObjectNotFound(f"the remote segment {segment.id} has no leader epochs")
        try:
            return tuple(decode_epochs(f"the leader epochs of {segment.id}", data))
        except KafkaStorageError as error:
            raise ObjectCorrupt(str(error)) from None

    async def undecided_from(self, name: TopicIdPartition, segment: RemoteSegment) -> int | None:
        """Where the first transaction began that was neither committed nor aborted at the segment's end; None: none."""
        data = await self._part(await self._store.manifest(name, segment), Part.PRODUCER_SNAPSHOT)
        if data is None:
            raise ObjectNotFound(f"the remote segment {segment.id} has no producers' state")
        try:
            begun = [entry.txn_first_offset for entry in decode_snapshot(data) if entry.txn_first_offset >= 0]
        except KafkaStorageError as error:
            raise ObjectCorrupt(f"the producers of {segment.id}: {error}") from None
        return min(begun, default=None)

    async def aborted(self, name: TopicIdPartition, segment: RemoteSegment) -> list[AbortedTransaction]:
        """The aborted transactions whose markers are in a segment."""
        if segment.txn_index_empty:
            return []
        data = await self._part(await self._store.manifest(name, segment), Part.TXN_INDEX)
        try:
            return decode_txn_index(data or b"")
        except KafkaStorageError as error:
            raise ObjectCorrupt(str(error)) from None

    async def stretches(
        self, name: TopicIdPartition, segment: RemoteSegment, start: int, end: int
    ) -> AsyncIterator[tuple[bytes, list[BatchInfo]]]:
        """The batches of a segment that hold the offsets from `start` to before `end`, megabytes at a time."""
        manifest = await self._store.manifest(name, segment)
        chunks = len(manifest.parts[Part.LOG].stored)
        position = await self._position(manifest, start)
        number, skip = divmod(position, manifest.chunk_bytes)
        check_crc = manifest.parts[Part.LOG].checksums is None  # nobody else has checked these bytes
        rest = b""
        while number < chunks:
            data = rest + (await self._stretch(manifest, number))[skip:]
            number, skip = number + _RUN * _SIDE_BY_SIDE, 0
            batches, valid, reason = scan_prefix(data, 0, -1, check_crc)
            if reason is not None and (reason != TRUNCATED or number >= chunks):
                raise ObjectCorrupt(f"the log of {segment.id}: {reason}")
            rest = data[valid:]
            wanted = [batch for batch in batches if batch.last_offset >= start and batch.base_offset < end]
            if wanted:
                yield data, wanted
            if batches and batches[-1].last_offset + 1 >= end:
                return

    async def _stretch(self, manifest: Manifest, first: int) -> bytes:
        after = min(first + _RUN * _SIDE_BY_SIDE, len(manifest.parts[Part.LOG].stored))
        runs = (self._store.read_chunks(manifest, Part.LOG, each, _RUN) for each in range(first, after, _RUN))
        return b"".join(chunk for run in await asyncio.gather(*runs) for chunk in run)

    async def _part(self, manifest: Manifest, part: Part) -> bytes | None:
        return await self._store.read_part(manifest, part) if part in manifest.parts else None

    async def _position(self, manifest: Manifest, offset: int) -> int:
        """Where to begin to look for an offset."""
        wanted = offset - manifest.segment.start_offset
        if wanted <= 0:
            return 0
        index = await self._part(manifest, Part.OFFSET_INDEX) or b""
        slots = range(len(index) // _OFFSET_ENTRY.size)
        slot = bisect_right(slots, wanted, key=lambda at: _OFFSET_ENTRY.unpack_from(index, at * _OFFSET_ENTRY.size)[0])
        found = _OFFSET_ENTRY.unpack_from(index, (slot - 1) * _OFFSET_ENTRY.size)[1] if slot else 0
        return int(found) if 0 <= found < manifest.parts[Part.LOG].size else 0
