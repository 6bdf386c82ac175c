"""The chunks of remote segments' logs: from memory, from the cache on disk, else from the store, each fetched once.

A chunk that somebody asked for is fetched to the end and kept, also when whoever asked has gone: a client whose wait is
over finds it at its next try. Chunks that follow are fetched before they are asked for, unless the store is busy.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeVar

from kavka.model.types import Uuid
from kavka.tiered.disk_cache import DiskCache
from kavka.tiered.objects.base import StoreError, StoreUnavailable
from kavka.tiered.objects.manifest import Manifest, Part
from kavka.tiered.objects.segments import SegmentStore

_RUN = 8  # chunks in one request at most
_Key = tuple[Uuid, int]
T = TypeVar("T")


class Places:
    """Room for so many at a time, a number that may change."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        """Whether the next one has to wait."""
        return self._taken >= self._most()

    async def __aenter__(self) -> None:
        if self.full:
            mine = asyncio.get_running_loop().create_future()
            self._waiting.append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():
                    self._leave()
                raise
        else:
            self._taken += 1

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._taken -= 1
        while self._waiting and not self.full:
            waiting = self._waiting.popleft()
            if not waiting.done():
                self._taken += 1
                waiting.set_result(None)


class ChunkLoader:
    """Loads chunks while `run` runs."""

    def __init__(
        self, store: SegmentStore, cache: DiskCache, *, fetches: Callable[[], int], memory_bytes: int = 32 << 20
    ) -> None:
        self._store = store
        self._cache = cache
        self._memory_bytes = memory_bytes
        self._permits = Places(fetches)
        self._tasks: asyncio.TaskGroup | None = None
        self._loading: dict[_Key, asyncio.Future[bytes]] = {}
        self._shared: dict[str, asyncio.Future[Any]] = {}
        self._recent: OrderedDict[_Key, bytes] = OrderedDict()
        self._recent_bytes = 0
        self.fetched = 0  # chunks that came from the store
        self.ahead = 0  # of them, how many were asked for ahead of time

    async def run(self) -> None:
        """Own what is being loaded, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    async def chunks(self, manifest: Manifest, first: int, last: int) -> list[bytes]:
        """The log's chunks from one to another."""
        self._start(manifest, range(first, last + 1))
        keys = [(manifest.segment.id, number) for number in range(first, last + 1)]
        waits = [self._recent.get(key) or self._loading[key] for key in keys]  # all now: they move while we wait
        return [wait if isinstance(wait, bytes) else await asyncio.shield(wait) for wait in waits]

    def prefetch(self, manifest: Manifest, numbers: Iterable[int]) -> None:
        """Load chunks that will be asked for soon, unless others wait for the store."""
        if self._tasks is None or self._permits.full:
            return
        there = len(manifest.parts[Part.LOG].stored)
        wanted = [number for number in numbers if number < there]
        self.ahead += self._start(manifest, wanted)

    async def shared(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """What a piece of work answers; it is done once for all who ask for it meanwhile, and to the end."""
        future: asyncio.Future[T] | None = self._shared.get(key)
        if future is None:
            tasks = self._running()
            future = self._shared[key] = asyncio.get_running_loop().create_future()
            tasks.create_task(self._perform(key, work, future))
        return await asyncio.shield(future)

    def ahead_of_time(self, key: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do a piece of work that somebody will ask for soon, unless others wait for the store."""
        if self._tasks is not None and key not in self._shared and not self._permits.full:
            future = self._shared[key] = asyncio.get_running_loop().create_future()
            self._tasks.create_task(self._perform(key, work, future))

    async def forget(self, segment_id: Uuid) -> None:
        """Give up what is kept of a segment that is gone."""
        for key in [key for key in self._recent if key[0] == segment_id]:
            self._recent_bytes -= len(self._recent.pop(key))
        await self._cache.drop_of(f"{segment_id}.")

    def _start(self, manifest: Manifest, numbers: Iterable[int]) -> int:
        id = manifest.segment.id
        missing = []
        for number in numbers:
            if (id, number) in self._recent:
                self._recent.move_to_end((id, number))
            elif (id, number) not in self._loading:
                missing.append(number)
        if missing:
            tasks = self._running()
            for number in missing:
                self._loading[id, number] = asyncio.get_running_loop().create_future()
            tasks.create_task(self._load(manifest, missing))
        return len(missing)

    def _running(self) -> asyncio.TaskGroup:
        if self._tasks is None:
            raise StoreUnavailable("remote segments are not being read")
        return self._tasks

    async def _perform(self, key: str, work: Callable[[], Awaitable[Any]], future: asyncio.Future[Any]) -> None:
        try:
            result = await work()
            if not future.done():
                future.set_result(result)
        except StoreError as error:
            _fail(future, error)
        except Exception as error:
            _fail(future, StoreUnavailable(f"{type(error).__name__}: {error}"))
        finally:
            del self._shared[key]
            _fail(future, StoreUnavailable("the read was given up"))

    async def _load(self, manifest: Manifest, numbers: list[int]) -> None:
        try:
            missing = []
            for number in numbers:
                chunk = await self._cache.get(_name(manifest, number))
                if chunk is not None and len(chunk) == manifest.chunk_size(Part.LOG, number):
                    self._done(manifest, number, chunk)
                else:
                    missing.append(number)
            for run in _runs(missing):
                await self._fetch(manifest, run)
        except StoreError as error:
            self._end(manifest, numbers, error)
        except Exception as error:  # whatever it is belongs to those who wait, not to all readers
            self._end(manifest, numbers, StoreUnavailable(f"{type(error).__name__}: {error}"))
        finally:
            self._end(manifest, numbers, StoreUnavailable("the read was given up"))

    async def _fetch(self, manifest: Manifest, run: list[int]) -> None:
        async with self._permits:
            chunks = await self._store.read_chunks(manifest, Part.LOG, run[0], len(run))
        self.fetched += len(run)
        for number, chunk in zip(run, chunks, strict=True):
            self._done(manifest, number, chunk)
        for number, chunk in zip(run, chunks, strict=True):
            await self._cache.put(_name(manifest, number), chunk)

    def _done(self, manifest: Manifest, number: int, chunk: bytes) -> None:
        key = (manifest.segment.id, number)
        self._recent[key] = chunk
        self._recent_bytes += len(chunk)
        while self._recent_bytes > self._memory_bytes and len(self._recent) > 1:
            self._recent_bytes -= len(self._recent.popitem(last=False)[1])
        future = self._loading[key]
        if not future.done():
            future.set_result(chunk)

    def _end(self, manifest: Manifest, numbers: list[int], error: StoreError) -> None:
        """Stop loading chunks: those that came are in the cache by now, the others have failed."""
        for number in numbers:
            future = self._loading.pop((manifest.segment.id, number), None)
            if future is not None:
                _fail(future, error)


def _fail(future: asyncio.Future[Any], error: StoreError) -> None:
    if not future.done():
        future.set_exception(error)
        with suppress(StoreError):
            future.result()  # nobody may be waiting any more, and that is no fault


def _name(manifest: Manifest, number: int) -> str:
    return f"{manifest.segment.id}.{manifest.chunk_bytes}.{number}"


def _runs(numbers: list[int]) -> list[list[int]]:
    """Consecutive numbers together, a few at a time."""
    runs = []
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        runs += [run[at : at + _RUN] for at in range(0, len(run), _RUN)]
    return runs
