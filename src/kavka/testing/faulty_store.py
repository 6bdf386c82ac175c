"""An object store that goes wrong on purpose: slow, unavailable, refusing, full, hanging, losing, short, corrupt.

Faults come from a script (the next call of an operation) or by chance with a seed; every one that happened is in
`happened`. A store may say "done" and lose the object all the same: that is one of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from random import Random

from kavka.tiered.objects.base import Content, ObjectInfo, ObjectStore, StoreFull, StoreRefused, StoreUnavailable


class Fault(Enum):
    """What can go wrong with a call."""

    SLOW = "slow"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    FULL = "full"
    HANGS = "hangs"
    PANICS = "panics"  # raises what is no Exception, as obstore can
    LOSES = "loses"  # says that an object is stored, and has it not
    SHORT = "short"
    CORRUPT = "corrupt"
    LATE = "late"  # does what is asked, and then fails


class Panic(BaseException):
    """What a library in another language may raise."""


class FaultyStore:
    """A store with faults in front of another."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        rates: Mapping[Fault, float] | None = None,
        seed: int = 0,
        slow_s: float = 0.05,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self.rates = dict(rates or {})
        self._random = Random(seed)
        self._slow_s = slow_s
        self._sleep = sleep
        self._script: dict[str, deque[Fault | None]] = {}
        self.happened: Counter[tuple[str, Fault]] = Counter()
        self.calls: Counter[str] = Counter()

    def script(self, operation: str, *faults: Fault | None) -> None:
        """What the next calls of an operation (put, read, head, list, delete) meet; None is no fault."""
        self._script.setdefault(operation, deque()).extend(faults)

    async def put(self, key: str, content: Content) -> int:
        """Store an object, or not."""
        fault = await self._meet("put")
        if fault is Fault.LOSES:
            return sum([len(chunk) async for chunk in content.chunks()])
        if fault in (Fault.SHORT, Fault.CORRUPT):
            data = b"".join([chunk async for chunk in content.chunks()])
            await self._store.put(key, Content.of(self._spoiled(data, fault)))
            return len(data)
        size = await self._store.put(key, content)
        self._after(fault)
        return size

    async def read(self, key: str, start: int, length: int) -> bytes:
        """Bytes of an object, or others."""
        fault = await self._meet("read")
        data = await self._store.read(key, start, length)
        self._after(fault)
        return self._spoiled(data, fault)

    async def head(self, key: str) -> ObjectInfo:
        """What is known of an object."""
        self._after(await self._meet("head"))
        return await self._store.head(key)

    async def list_page(self, prefix: str, after: str) -> list[ObjectInfo]:
        """Some objects in a folder."""
        self._after(await self._meet("list"))
        return await self._store.list_page(prefix, after)

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, or the first of them only."""
        fault = await self._meet("delete")
        if fault is Fault.LATE:
            await self._store.delete(keys[:1])
        else:
            await self._store.delete(keys)
        self._after(fault)

    async def abandoned(self, *, remove: bool) -> list[ObjectInfo]:
        """What was left, without faults."""
        return await self._store.abandoned(remove=remove)

    async def _meet(self, operation: str) -> Fault | None:
        self.calls[operation] += 1
        fault = self._choose(operation)
        if fault is None:
            return None
        self.happened[operation, fault] += 1
        match fault:
            case Fault.SLOW:
                await self._sleep(self._slow_s)
            case Fault.UNAVAILABLE:
                raise StoreUnavailable("503 SlowDown")
            case Fault.REFUSED:
                raise StoreRefused("403 AccessDenied")
            case Fault.FULL:
                raise StoreFull("507 no room")
            case Fault.PANICS:
                raise Panic("range start is after the end")
            case Fault.HANGS:
                await asyncio.get_running_loop().create_future()
        return fault

    def _choose(self, operation: str) -> Fault | None:
        script = self._script.get(operation)
        if script:
            return script.popleft()
        drawn = self._random.random()
        for fault, rate in self.rates.items():
            if fault is Fault.LOSES and operation != "put":
                continue
            if drawn < rate:
                return fault
            drawn -= rate
        return None

    def _after(self, fault: Fault | None) -> None:
        if fault is Fault.LATE:
            raise StoreUnavailable("the connection was lost")

    def _spoiled(self, data: bytes, fault: Fault | None) -> bytes:
        if fault is Fault.SHORT and data:
            return data[: self._random.randrange(len(data))]
        if fault is Fault.CORRUPT and data:
            at = self._random.randrange(len(data))
            return data[:at] + bytes([data[at] ^ (1 << self._random.randrange(8))]) + data[at + 1 :]
        return data
