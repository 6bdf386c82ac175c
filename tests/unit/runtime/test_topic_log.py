"""Reading the events of the catalogue against a played cluster: what stops is read again, and nothing is left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.unit.client.conftest import PlayedCluster

from kavka.client import Producer, TopicPartition
from kavka.client.fetcher import Fetcher
from kavka.model.errors import CorruptMessage, OffsetOutOfRange, TopicAuthorizationFailed
from kavka.runtime.remote_catalog.event_log import Events
from kavka.runtime.remote_catalog.topic_log import OPTIONS, events_of, read_again, truncated_one

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
REFUSED = TopicAuthorizationFailed.code


class Reading:
    """A fetcher of a played cluster."""

    def __init__(self, played: PlayedCluster, fetcher: Fetcher, producer: Producer) -> None:
        self.played = played
        self.fetcher = fetcher
        self._producer = producer

    async def write(self, tp: TopicPartition, *values: bytes) -> None:
        for value in values:
            await self._producer.send_and_wait(tp.topic, value, partition=tp.partition)

    async def events(self) -> Events:
        taken = await self.fetcher.take()
        assert taken is not None
        return events_of(self.fetcher, *taken)

    async def values(self, count: int) -> list[bytes | None]:
        found: list[bytes | None] = []
        while len(found) < count:
            found += [value for _, value in (await self.events()).values]
        return found

    async def refuse(self, tp: TopicPartition) -> None:
        """Have the next fetch of a partition refused for good, and wait until it was."""
        self.played.topics["orders"][tp.partition].fetch_errors.append(REFUSED)
        while not self.fetcher.assigned[tp].stopped:
            await asyncio.sleep(0)


@asynccontextmanager
async def reading() -> AsyncIterator[Reading]:
    played = PlayedCluster()
    partitions = played.topics["orders"]
    partitions[1] = replace(played.partition, log=[], data=bytearray(), fetch_errors=[], expected={})
    async with (
        asyncio.timeout(10),
        played.pool() as pool,
        Producer(pool, linger_ms=0) as producer,
        Fetcher(pool, OPTIONS) as fetcher,
    ):
        yield Reading(played, fetcher, producer)


def play(scenario: Callable[[Reading], Awaitable[None]]) -> None:
    async def run() -> None:
        async with reading() as found:
            await scenario(found)

    asyncio.run(run())


def test_what_is_damaged_is_read_again_and_what_came_before_it_is_given_out() -> None:
    async def scenario(log: Reading) -> None:
        await log.write(ONE, b"a", b"b")
        log.played.partition.data[-1] ^= 1
        log.fetcher.seek(ONE, 0)
        assert await log.values(1) == [b"a"]
        with pytest.raises(CorruptMessage):
            await log.events()
        log.played.partition.data[-1] ^= 1
        read_again(log.fetcher)
        assert await log.values(1) == [b"b"]

    play(scenario)


def test_what_was_fetched_and_not_given_out_when_a_partition_stopped_is_fetched_again() -> None:
    async def scenario(log: Reading) -> None:
        await log.write(OTHER, b"a", b"b")
        log.fetcher.seek(ONE, 0)
        await log.refuse(ONE)
        log.fetcher.seek(OTHER, 0)
        while log.fetcher.assigned[OTHER].fetch_at < 2:
            await asyncio.sleep(0)
        await log.refuse(OTHER)
        with pytest.raises(TopicAuthorizationFailed):
            await log.events()
        read_again(log.fetcher)
        assert await log.values(2) == [b"a", b"b"]

    play(scenario)


def test_a_partition_that_lost_its_end_while_it_had_stopped_is_noticed_and_others_that_have_stopped_go_on() -> None:
    async def scenario(log: Reading) -> None:
        await log.write(ONE, b"a", b"b")
        log.fetcher.seek(ONE, 0)
        await log.values(2)
        await log.refuse(ONE)
        with pytest.raises(TopicAuthorizationFailed):
            await log.events()
        log.played.partition.epoch = 7
        read_again(log.fetcher)
        with pytest.raises(OffsetOutOfRange):
            await log.events()
        await log.write(OTHER, b"c")
        log.fetcher.seek(OTHER, 0)
        await log.refuse(OTHER)
        assert truncated_one(log.fetcher) == Events(0, (), 0, truncated=True)
        assert await log.values(1) == [b"c"]

    play(scenario)
