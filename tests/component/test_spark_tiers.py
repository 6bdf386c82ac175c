"""Spark's readers on both tiers, without Spark: what is tiered comes from the store, the rest from the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiering import EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, TOPIC, World, serving, settings, until, value_of

from kavka.client import Producer
from kavka.model.types import TopicPartition
from kavka.spark.offsets import DataLossError
from kavka.spark.options import source_options
from kavka.spark.source import BatchReader, StreamReader, TaskRanges

pytest.importorskip("pyspark", reason="pyspark is not installed")
Scenario = Callable[[World, str], Awaitable[None]]


def play(folder: Path, scenario: Scenario, **more: str) -> None:
    url = f"file://{folder}/store"

    async def run() -> None:
        texts = settings(folder / "log", url, {name.replace("_", "."): value for name, value in more.items()})
        async with serving(texts) as world:
            await scenario(world, url)

    asyncio.run(run())


def reader(world: World, url: str | None, **options: str) -> BatchReader:
    given = {"kafka.bootstrap.servers": world.bootstrap, "subscribe": TOPIC, "timeoutMs": "20000"}
    given |= {"columns": "offset,value"} | {name.replace("_", "."): value for name, value in options.items()}
    if url is not None:
        given["kavka.remote.storage.url"] = url
    return BatchReader(source_options(given, streaming=False))


async def planned(read: Any, *places: Any) -> list[TaskRanges]:
    found = await asyncio.to_thread(read.partitions, *places)
    return [each for each in found if isinstance(each, TaskRanges)]


async def rows(read: Any, parts: list[TaskRanges]) -> list[tuple[int, bytes]]:
    def work() -> list[tuple[int, bytes]]:
        batches = [batch.to_pylist() for part in parts for batch in read.read(part)]
        return [(row["offset"], row["value"]) for batch in batches for row in batch]

    return await asyncio.to_thread(work)


def spans(parts: list[TaskRanges]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What is read from the store, and what from the leader."""
    ranges = [each for part in parts for each in part.ranges]
    return (
        [(each.start, each.end) for each in ranges if each.location is not None],
        [(each.start, each.end) for each in ranges if each.location is None],
    )


def test_what_is_tiered_comes_from_the_store_and_the_rest_from_the_leader(tmp_path: Path) -> None:
    async def scenario(world: World, url: str) -> None:
        await world.create()
        await world.produce(*range(9))
        await world.becomes(LATEST_TIERED, 7)
        await world.becomes(EARLIEST_LOCAL, 8)
        read = reader(world, url)
        parts = await planned(read)
        assert spans(parts) == ([(0, 2), (2, 4), (4, 6), (6, 8)], [(8, 9)])
        truth = [(number, value_of(number)) for number in range(9)]
        assert await rows(read, parts) == truth
        leader = reader(world, None)
        assert await rows(leader, await planned(leader)) == truth
        some = reader(world, url, startingOffsets='{"orders": {"0": 3}}', endingOffsets='{"orders": {"0": 7}}')
        parts = await planned(some)
        assert spans(parts) == ([(3, 4), (4, 6), (6, 7)], [])
        assert await rows(some, parts) == truth[3:7]

    play(tmp_path, scenario)


def test_a_stream_goes_to_the_store_only_for_what_no_leader_has(tmp_path: Path) -> None:
    async def scenario(world: World, url: str) -> None:
        await world.create(local_retention_bytes=-2)
        await world.produce(*range(9))
        await world.becomes(LATEST_TIERED, 7)
        given = {"kafka.bootstrap.servers": world.bootstrap, "subscribe": TOPIC, "columns": "offset,value"}
        given |= {"kavka.remote.storage.url": url, "startingOffsets": "earliest"}
        read = StreamReader(source_options(given, streaming=True))
        begin, end = {TOPIC: {"0": 0}}, await asyncio.to_thread(read.initialOffset)
        end = {**end, TOPIC: {"0": 9}}
        assert spans(await planned(read, begin, end)) == ([], [(0, 9)])
        await world.alter(local_retention_bytes=1)
        await world.becomes(EARLIEST_LOCAL, 8)
        parts = await planned(read, begin, end)
        assert spans(parts)[1] == [(8, 9)]
        assert await rows(read, parts) == [(number, value_of(number)) for number in range(9)]
        await asyncio.to_thread(read.stop)

    play(tmp_path, scenario)


def test_committed_reads_are_right_across_the_border(tmp_path: Path) -> None:
    async def scenario(world: World, url: str) -> None:
        await world.create()
        async with (
            Producer(world.pool, transactional_id="shop", linger_ms=0) as shop,
            Producer(world.pool, transactional_id="till", linger_ms=0) as till,
        ):
            for number in range(8):
                shop.begin()
                await shop.send_and_wait(TOPIC, value_of(number), partition=0)
                await (shop.commit() if number % 2 else shop.abort())
            await world.becomes(LATEST_TIERED, 14)  # a marker is larger: here each batch is a segment
            read = reader(world, url, kafka_isolation_level="read_committed")
            parts = await planned(read)
            assert spans(parts)[0], "decided transactions are read from the store"
            assert [value for _, value in await rows(read, parts)] == [value_of(number) for number in (1, 3, 5, 7)]
            # Here the data of a transaction is tiered, and its marker is behind another's open one, which is not.
            shop.begin()
            await shop.send_and_wait(TOPIC, value_of(90), partition=0)
            await shop.send_and_wait(TOPIC, value_of(91), partition=0)
            till.begin()
            await till.send_and_wait(TOPIC, value_of(8), partition=0)
            await shop.abort()
            await world.becomes(LATEST_TIERED, 17)
            parts = await planned(read)
            assert spans(parts) == (spans(parts)[0], [(16, 18)])
            assert [value for _, value in await rows(read, parts)] == [value_of(number) for number in (1, 3, 5, 7)]
            everything = reader(world, url)
            parts = await planned(everything)
            assert max(end for _, end in spans(parts)[0]) == 18
            assert len(await rows(everything, parts)) == 8 + 3
            await till.commit()
        await world.produce(*range(100, 108))

        async def tiered() -> bool:
            return await world.offset(LATEST_TIERED) > 20

        await until(tiered, "the markers are tiered, too")
        parts = await planned(read)
        told = [value for _, value in await rows(read, parts)]
        assert told == await world.read(committed=True)
        assert told == [value_of(number) for number in (1, 3, 5, 7, 8, *range(100, 108))]

    play(tmp_path, scenario)


def test_what_expired_under_a_query_is_data_loss_or_is_passed_over(tmp_path: Path) -> None:
    async def scenario(world: World, url: str) -> None:
        await world.create()
        await world.produce(*range(9))
        await world.becomes(LATEST_TIERED, 7)
        await world.becomes(EARLIEST_LOCAL, 8)
        strict, lenient = reader(world, url), reader(world, url, failOnDataLoss="false")
        parts = await planned(strict)
        await world.admin.delete_records({TopicPartition(TOPIC, 0): 4})
        await world.becomes(EARLIEST, 4)
        store = tmp_path / "store"

        async def gone() -> bool:
            return len(list(store.rglob("*.log"))) == 2

        await until(gone, "the segments before offset 4 are deleted")
        with pytest.raises(DataLossError, match="orders-0 at offset 0"):
            await rows(strict, parts)
        assert [offset for offset, _ in await rows(lenient, parts)] == [4, 5, 6, 7, 8]

    play(tmp_path, scenario)


def test_an_object_that_is_not_there_any_more_is_asked_of_the_leader(tmp_path: Path) -> None:
    async def scenario(world: World, url: str) -> None:
        await world.create(local_retention_bytes=-2)
        await world.produce(*range(9))
        await world.becomes(LATEST_TIERED, 7)
        read = reader(world, url)
        parts = await planned(read)
        for path in (tmp_path / "store").rglob("*.log"):
            path.unlink()
        assert await rows(read, parts) == [(number, value_of(number)) for number in range(9)]

    play(tmp_path, scenario)
