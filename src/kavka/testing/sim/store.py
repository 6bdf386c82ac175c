"""An object store in memory that all nodes of a simulated cluster share, and each node's own trouble with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.testing.faulty_store import Fault, FaultyStore
from kavka.testing.sim.machine import Process
from kavka.tiered.objects.base import Content, ObjectCorrupt, ObjectInfo, ObjectNotFound

CALL_SECONDS: Final = (0.001, 0.03)
PAGE: Final = 100
TROUBLE: Final = {
    Fault.SLOW: 0.05,
    Fault.UNAVAILABLE: 0.08,
    Fault.LATE: 0.05,
    Fault.HANGS: 0.01,
    Fault.PANICS: 0.01,
}
"""How often a call meets what. None of it lies: a store that loses what it said to have keeps no promise for us."""


class StoredObject(NamedTuple):
    """The bytes of an object, when they were put, and by whom."""

    data: bytes
    put_ms: int
    owner: Process


class Bucket:
    """The objects."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.rates: dict[Fault, float] = {}
        """How often a call meets what, at present."""


class BucketView:
    """A bucket as one process sees it: every call takes its time, before it is done and after."""

    def __init__(self, bucket: Bucket, process: Process) -> None:
        self._bucket = bucket
        self._process = process

    async def _pass(self) -> None:
        await asyncio.sleep(self._process.random.uniform(*CALL_SECONDS))

    async def put(self, key: str, content: Content) -> int:
        """Store an object, whole or not at all."""
        data = b"".join([chunk async for chunk in content.chunks()])
        await self._pass()
        self._bucket.objects[key] = StoredObject(data, self._process.now_ms(), self._process)
        await self._pass()
        return len(data)

    async def read(self, key: str, start: int, length: int) -> bytes:
        """Bytes of an object."""
        await self._pass()
        data = self._find(key).data
        if start + length > len(data):
            raise ObjectCorrupt(f"{key} has {len(data)} bytes, {start + length} were asked for")
        return data[start : start + length]

    async def head(self, key: str) -> ObjectInfo:
        """What is known of an object."""
        await self._pass()
        return self._info(key)

    async def list_page(self, prefix: str, after: str) -> list[ObjectInfo]:
        """The next objects of a folder."""
        await self._pass()
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        found = sorted(key for key in self._bucket.objects if key.startswith(folder) and key > after)
        return [self._info(key) for key in found[:PAGE]]

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, one after the other."""
        for key in keys:
            await self._pass()
            self._bucket.objects.pop(key, None)

    async def abandoned(self, *, remove: bool) -> list[ObjectInfo]:
        """Nothing: an object is put whole or not at all."""
        return []

    def _info(self, key: str) -> ObjectInfo:
        found = self._find(key)
        return ObjectInfo(key, len(found.data), found.put_ms)

    def _find(self, key: str) -> StoredObject:
        try:
            return self._bucket.objects[key]
        except KeyError:
            raise ObjectNotFound(key) from None


def way_to(bucket: Bucket, process: Process) -> FaultyStore:
    """A process's way to a bucket, in the trouble that the bucket is in."""
    store = FaultyStore(BucketView(bucket, process), seed=process.random.getrandbits(32), slow_s=1.0)
    store.rates = bucket.rates
    return store
