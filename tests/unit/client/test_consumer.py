"""The consumer against a played cluster: places, errors, leaders that move, bounded prefetch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.client import Consumer, Producer, TopicPartition
from kavka.model.errors import (
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from kavka.protocol.registry import ApiKey

Played = Any  # the class is in conftest.py, which tests cannot import
TP = TopicPartition("orders", 0)


def consume(played: Played, work: Callable[[Consumer], Awaitable[None]], records: int = 6, **options: Any) -> None:
    """Write some records, two to a batch, then work with a consumer."""

    async def run() -> None:
        async with asyncio.timeout(10), played.pool() as pool:
            async with Producer(pool, linger_ms=60_000) as producer:
                for index in range(records):
                    await producer.send("orders", b"%d" % index)
                    if index % 2:
                        await producer.flush()
            async with Consumer(pool, **options) as consumer:
                await work(consumer)

    asyncio.run(run())


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % index for index in range(start, count)]


def test_all_records_come_in_order_up_to_the_end(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders")
        assert [record.value async for record in consumer.until_end()] == numbers(6)
        assert consumer.position(TP) == 6
        assert consumer.high_watermark(TP) == 6

    consume(played, work)


@pytest.mark.parametrize("offset", range(6))
def test_reading_begins_at_an_offset_inside_a_batch(played: Played, offset: int) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.assign(TP, start=offset)
        assert [record.offset async for record in consumer.until_end()] == list(range(offset, 6))

    consume(played, work)


def test_at_the_end_there_is_nothing_until_something_is_written(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders", start="end")
        assert await consumer.read(timeout_ms=20) == []
        async with played.pool() as pool, Producer(pool) as producer:
            await producer.send_and_wait("orders", b"new")
        (record,) = await consumer.read(timeout_ms=5000)
        assert (record.offset, record.value) == (6, b"new")

    consume(played, work)


def test_iteration_that_is_broken_off_goes_on_where_it_was(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders")
        async for record in consumer:
            if record.offset == 2:
                break
        assert consumer.position(TP) == 3
        assert [record.offset async for record in consumer.until_end()] == [3, 4, 5]

    consume(played, work)


def test_a_seek_forgets_what_was_fetched_ahead(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders")
        async for record in consumer:
            if record.offset == 2:
                break
        await consumer.seek(5, TP)
        assert [record.offset for record in await consumer.read()] == [5]
        await consumer.seek("start")
        assert (await consumer.read())[0].offset == 0

    consume(played, work)


def test_an_offset_that_the_log_does_not_have_is_an_error(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders", start=99)
        with pytest.raises(OffsetOutOfRange, match="orders-0 at offset 99"):
            await consumer.read()
        await consumer.seek("start")
        assert (await consumer.read())[0].offset == 0

    consume(played, work)


@pytest.mark.parametrize(("out_of_range", "first"), [("start", 0), ("end", 6)])
def test_or_reading_goes_on_where_the_consumer_was_told(played: Played, out_of_range: Any, first: int) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders", start=99)
        while consumer.position(TP) == 99:
            if await consumer.read(timeout_ms=20):
                break
        await consumer.seek(0)
        assert (await consumer.read())[0].offset == 0

    consume(played, work, out_of_range=out_of_range)


def test_a_passing_error_is_not_seen(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        played.partition.fetch_errors = [NotLeaderOrFollower.code, 3, 5, 9, 56, 74, 75, 78, 100]
        await consumer.assign("orders")
        assert [record.value async for record in consumer.until_end()] == numbers(6)

    consume(played, work)


def test_a_lasting_error_is_raised_with_its_place(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        played.partition.fetch_errors = [TopicAuthorizationFailed.code]
        await consumer.assign("orders", start=2)
        with pytest.raises(TopicAuthorizationFailed, match="orders-0 at offset 2"):
            await consumer.read()

    consume(played, work)


def test_the_leader_is_followed_to_another_node(played: Played) -> None:
    played.nodes = [0, 1]

    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders")
        assert (await consumer.read())[0].offset == 0
        played.partition.leader = 1
        played.down.add(0)
        await consumer.seek(4)
        assert [record.offset async for record in consumer.until_end()] == [4, 5]

    consume(played, work, max_bytes=100)


def test_a_leader_that_somebody_else_has_learned_of_is_followed(played: Played) -> None:
    played.nodes = [0, 1]

    async def run() -> None:
        async with asyncio.timeout(10), played.pool() as pool, Consumer(pool) as consumer:
            await consumer.assign("orders", start="end")
            polls = played.requests[ApiKey.FETCH]
            while played.requests[ApiKey.FETCH] == polls:
                await asyncio.sleep(0)
            played.partition.leader = 1  # while a poll of the old one is on its way, which will be answered well
            await pool.refresh(["orders"])
            async with played.pool() as other, Producer(other) as producer:
                await producer.send_and_wait("orders", b"new")
            (record,) = await consumer.read(timeout_ms=5000)
            assert record.value == b"new"

    asyncio.run(run())


def test_a_reader_that_does_not_read_bounds_what_is_fetched(played: Played) -> None:
    batch = 80

    async def work(consumer: Consumer) -> None:
        await consumer.assign("orders")
        await asyncio.sleep(0.05)
        fetches = played.requests[1]
        await asyncio.sleep(0.05)
        assert played.requests[1] == fetches
        assert [record.value async for record in consumer.until_end()] == numbers(100)

    consume(played, work, records=100, partition_bytes=batch * 3, prefetch_bytes=batch * 3)


def test_an_unknown_topic_or_partition_is_an_error(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        with pytest.raises(UnknownTopicOrPartition, match="'nope'"):
            await consumer.assign("nope")
        with pytest.raises(UnknownTopicOrPartition, match="no partition 7"):
            await consumer.assign(TopicPartition("orders", 7))

    consume(played, work)


def test_a_place_that_makes_no_sense_is_refused(played: Played) -> None:
    async def work(consumer: Consumer) -> None:
        with pytest.raises(ValueError, match="not negative"):
            await consumer.assign("orders", start=-1)
        with pytest.raises(ValueError, match="'middle'"):
            await consumer.assign("orders", start="middle")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not assigned"):
            await consumer.seek("start", TP)

    consume(played, work)


@pytest.mark.parametrize("options", [{"isolation": "none"}, {"out_of_range": "beginning"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Consumer("localhost:9092", **options)


def test_a_consumer_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        _ = Consumer("localhost:9092").assignment
