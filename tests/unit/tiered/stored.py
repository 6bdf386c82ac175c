"""Segments to be stored, for the tests of this folder and of the object stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from kavka.catalog.segment import RemoteSegment, TopicIdPartition
from kavka.model.types import Uuid
from kavka.tiered.objects.guard import GuardedStore, StoreLimits
from kavka.tiered.objects.manifest import Part

T = TypeVar("T")

NAME = TopicIdPartition(Uuid(b"topic-id-16-byte"), 3, "orders-eu.v1")
SEGMENT = RemoteSegment(Uuid(b"segment-16-bytes"), 100, 199, 5, 6, 10_000, 1, ((0, 100), (2, 150)))
FILES: dict[Part, Any] = {
    Part.LOG: Random(1).randbytes(4_000) + bytes(6_000),
    Part.OFFSET_INDEX: bytes(range(64)),
    Part.TIME_INDEX: b"",
    Part.PRODUCER_SNAPSHOT: b"producers" * 300,
    Part.LEADER_EPOCHS: b"0\n2\n0 0\n2 150\n",
}


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run to the end, or fail after a minute."""

    async def within() -> T:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(within())


async def at_once(_: float) -> None:
    """A sleep that does not."""


def guarded(store: Any, **limits: Any) -> GuardedStore:
    return GuardedStore(store, StoreLimits(**limits), sleep=at_once)
