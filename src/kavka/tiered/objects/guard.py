"""Our own time limits and retries around every call to an object store.

A library's limits are not relied on: an upload that never returns would stall its partition for good. Whatever it
raises becomes a StoreError here, exceptions that are no Exception included (obstore's Rust side can panic).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import uniform
from typing import TypeVar

from kavka.telemetry.metrics import Metrics
from kavka.tiered.objects.base import (
    Content,
    ObjectInfo,
    ObjectStore,
    StoreError,
    StoreTimedOut,
    StoreUnavailable,
)

T = TypeVar("T")

_OURS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """How long a call may take, and how often it is tried."""

    call_s: float = 30.0
    put_bytes_per_s: float = 1 << 20  # slower than this is as good as stuck
    attempts: int = 4
    backoff_s: float = 0.2
    backoff_max_s: float = 5.0


class StoreMetrics:
    """What is counted of the calls to a store."""

    def __init__(self, metrics: Metrics) -> None:
        self.calls = metrics.counters("kavka_remote_store_calls", "Calls to the object store", "operation", "outcome")
        self.retries = metrics.counters("kavka_remote_store_retries", "Calls that were tried again", "operation")
        self.read_bytes = metrics.counter("kavka_remote_store_read_bytes", "Bytes read from the object store")
        self.put_bytes = metrics.counter("kavka_remote_store_put_bytes", "Bytes written to the object store")


class GuardedStore:
    """A store whose calls end in time, are tried again where that may help, and fail only with StoreErrors."""

    def __init__(
        self,
        store: ObjectStore,
        limits: StoreLimits | None = None,
        metrics: StoreMetrics | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[float, float], float] = uniform,
    ) -> None:
        self._store = store
        self._limits = limits or StoreLimits()
        self._metrics = metrics or StoreMetrics(Metrics())
        self._sleep = sleep
        self._draw = draw

    async def put(self, key: str, content: Content) -> int:
        """Store an object; the time limit grows with its size."""
        limit = self._limits.call_s + content.size_hint / self._limits.put_bytes_per_s
        size = await self._call("put", key, limit, lambda: self._store.put(key, content))
        self._metrics.put_bytes.value += size
        return size

    async def read(self, key: str, start: int, length: int) -> bytes:
        """Exactly these bytes of an object."""
        if length == 0:
            return b""
        data = await self._call("read", key, self._limits.call_s, lambda: self._store.read(key, start, length))
        self._metrics.read_bytes.value += length
        return data

    async def head(self, key: str) -> ObjectInfo:
        """What is known of an object."""
        return await self._call("head", key, self._limits.call_s, lambda: self._store.head(key))

    async def list_page(self, prefix: str, after: str) -> list[ObjectInfo]:
        """Some objects in a folder, by key."""
        return await self._call("list", prefix, self._limits.call_s, lambda: self._store.list_page(prefix, after))

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; what an earlier attempt removed is no error."""
        await self._call("delete", ", ".join(keys), self._limits.call_s, lambda: self._store.delete(keys))

    async def abandoned(self, *, remove: bool) -> list[ObjectInfo]:
        """What uploads have left whose writer died amid them."""
        return await self._call("sweep", "", self._limits.call_s, lambda: self._store.abandoned(remove=remove))

    async def _call(self, operation: str, what: str, limit_s: float, attempt: Callable[[], Awaitable[T]]) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                result = await self._once(operation, what, limit_s, attempt)
            except StoreError as error:
                if not error.retriable or tries >= self._limits.attempts:
                    self._metrics.calls.of(operation, type(error).__name__).value += 1
                    raise
            else:
                self._metrics.calls.of(operation, "ok").value += 1
                return result
            self._metrics.retries.of(operation).value += 1
            most = min(self._limits.backoff_max_s, self._limits.backoff_s * 2 ** (tries - 1))
            await self._sleep(self._draw(most / 2, most))

    async def _once(self, operation: str, what: str, limit_s: float, attempt: Callable[[], Awaitable[T]]) -> T:
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await attempt()
        except StoreError:
            raise
        except TimeoutError as error:
            if limit.expired():
                raise StoreTimedOut(f"{operation} {what} took more than {limit_s:.0f} s") from None
            raise StoreUnavailable(f"{operation} {what}: {error}") from error
        except _OURS:
            raise
        except BaseException as error:
            raise StoreUnavailable(f"{operation} {what}: {type(error).__name__}: {error}") from error
