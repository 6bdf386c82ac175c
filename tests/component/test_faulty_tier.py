"""A store that fails in all its ways behind one node: nothing is lost, nothing wrong is read, nothing is left over."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.scale import rounds
from tests.tiering import EARLIEST_LOCAL, LATEST_TIERED, TOPIC, World, serving, settings, until, value_of

from kavka.client import Consumer
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing.faulty_store import Fault, FaultyStore
from kavka.tiered.objects.base import Content, ObjectStore, StoreRefused
from kavka.tiered.objects.local import LocalStore

TP = TopicPartition(TOPIC, 0)
LIMITS = {"kavka.remote.storage.timeout.ms": "300", "kavka.remote.cache.bytes": "0"}
BAD_DAY = {
    Fault.UNAVAILABLE: 0.1,
    Fault.LATE: 0.05,
    Fault.SHORT: 0.02,
    Fault.LOSES: 0.02,
    Fault.PANICS: 0.02,
    Fault.REFUSED: 0.02,
    Fault.FULL: 0.01,
    Fault.HANGS: 0.01,
}


class Stragglers(FaultyStore):
    """A store that refuses an upload, and has it all the same once everybody has cleaned up."""

    def __init__(self, store: ObjectStore, seed: int) -> None:
        super().__init__(store, seed=seed)
        self.late: list[tuple[str, Content]] = []
        self.arrived = 0
        self._one_at_a_time = asyncio.Lock()

    async def put(self, key: str, content: Content) -> int:
        if key.endswith(".log") and self.arrived < 3:
            self.late.append((key, Content.of(b"".join([chunk async for chunk in content.chunks()]))))
            raise StoreRefused("403 ExpiredToken")
        return await super().put(key, content)

    async def delete(self, keys: Sequence[str]) -> None:
        async with self._one_at_a_time:
            await super().delete(keys)
            for key, content in [row for row in self.late if row[0] in keys]:
                self.late.remove((key, content))
                self.arrived += await super().put(key, content) > 0


def play(
    folder: Path,
    scenario: Callable[[World, Any], Awaitable[None]],
    seed: int = 0,
    kind: Callable[..., FaultyStore] = FaultyStore,
) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(4) as threads:
            store = kind(LocalStore(f"{folder}/store", threads), seed=seed)
            texts = settings(folder / "data", f"file://{folder}/store", LIMITS)
            async with serving(texts, store) as world:
                await scenario(world, store)

    asyncio.run(whole())


def objects(folder: Path, suffix: str) -> set[str]:
    return {path.stem for path in (folder / "store").rglob(f"*.{suffix}")}


async def read_all(world: World, count: int) -> list[bytes | None]:
    """Read on over every error, as clients do."""
    found: list[bytes | None] = []
    while len(found) < count:
        try:
            async with Consumer(world.pool) as consumer:
                await consumer.assign(TP, start=len(found))
                async for record in consumer.until_end():
                    assert record.offset == len(found)
                    found.append(record.value)
        except KafkaError as error:
            if not error.retriable:
                raise
    return found


def test_a_bad_day_of_the_store_costs_time_only(tmp_path: Path) -> None:
    count, seed = rounds(600, 60), int(os.environ.get("KAVKA_SEED", random.randrange(1 << 30)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")

    async def scenario(world: World, store: FaultyStore) -> None:
        store.rates = dict(BAD_DAY)
        await world.create()
        await world.produce(*range(count))
        await world.becomes(LATEST_TIERED, count - 3)
        await world.becomes(EARLIEST_LOCAL, count - 2)
        assert await read_all(world, count) == [value_of(number) for number in range(count)]
        assert store.happened
        store.rates.clear()

        async def settled() -> bool:
            logs = objects(tmp_path, "log")
            return len(logs) == (count - 2) // 2 and logs == objects(tmp_path, "manifest") == objects(tmp_path, "index")

        await until(settled, "what is left of failed copies is gone")

    play(tmp_path, scenario, seed)


def test_an_upload_that_arrives_after_it_was_given_up_is_removed_as_well(tmp_path: Path) -> None:
    async def scenario(world: World, store: Stragglers) -> None:
        await world.create()
        await world.produce(*range(10))
        await world.becomes(LATEST_TIERED, 7)
        assert store.arrived == 3

        async def settled() -> bool:
            return len(objects(tmp_path, "log")) == 4 and objects(tmp_path, "log") == objects(tmp_path, "manifest")

        await until(settled, "what arrived late is gone")

    play(tmp_path, scenario, kind=Stragglers)


@pytest.mark.parametrize(
    "fault", [Fault.UNAVAILABLE, Fault.HANGS, Fault.REFUSED, Fault.PANICS, Fault.CORRUPT, Fault.SHORT]
)
def test_a_read_that_fails_is_a_retriable_error_and_never_wrong_bytes(tmp_path: Path, fault: Fault) -> None:
    async def scenario(world: World, store: FaultyStore) -> None:
        await world.create()
        await world.produce(*range(10))
        await world.becomes(EARLIEST_LOCAL, 8)
        store.script("read", *[fault] * 6)
        assert await read_all(world, 10) == [value_of(number) for number in range(10)]
        assert store.happened["read", fault]

    play(tmp_path, scenario)


def test_an_object_that_was_removed_behind_our_back_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def scenario(world: World, store: FaultyStore) -> None:
        await world.create()
        await world.produce(*range(10))
        await world.becomes(EARLIEST_LOCAL, 8)
        for path in (tmp_path / "store").rglob("00000000000000000002-*.log"):
            path.unlink()
        assert await world.read(start=4) == [value_of(number) for number in range(4, 10)]
        async with Consumer(world.pool) as consumer:
            await consumer.assign(TP, start=2)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await anext(aiter(consumer))

    play(tmp_path, scenario)
