"""The share consumer of kavka.client against a node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from component.share_member import World, world_at
from kavka.client import Admin, ShareConsumer
from kavka.client.blocking import Client
from kavka.model.errors import InvalidRecordState
from kavka.testing import Cluster

SHORT = {"group.share.min.record.lock.duration.ms": "1000", "group.share.record.lock.duration.ms": "1000"}


async def prepared(world: World, records: int, partitions: int = 2) -> None:
    await world.create("jobs", partitions)
    await world.configure("g", {"share.auto.offset.reset": "earliest"})
    for partition in range(partitions):
        await world.produce("jobs", records, partition, first=partition * records)


def consumer_of(world: World, **options: object) -> ShareConsumer:
    return ShareConsumer(world.bootstrap, group="g", topics=["jobs"], **options)  # type: ignore[arg-type]


def test_two_members_share_the_records_of_all_partitions(tmp_path: Path) -> None:
    async def take(consumer: ShareConsumer, found: list[bytes | None]) -> None:
        async for record in consumer:
            assert record.delivery_count == 1
            found.append(record.value)
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world, 50)
            found: list[bytes | None] = []
            one, other = consumer_of(world, max_records=5), consumer_of(world, max_records=5)
            async with one, other:
                tasks = [asyncio.ensure_future(take(each, found)) for each in (one, other)]
                while len(found) < 100:
                    await asyncio.sleep(0.01)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            assert sorted(filter(None, found)) == sorted(f"v{number}".encode() for number in range(100))
            consumer = await consumer_of(world).start()
            assert await consumer.read(1500) == []  # all of them were accepted
            await consumer.stop()
            async with Admin(world.bootstrap) as admin:
                assert not (await admin.describe_share_group("g")).members

    asyncio.run(scenario())


def test_records_are_accepted_released_and_rejected_one_by_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world, 3, partitions=1)
            async with consumer_of(world, acknowledgement="explicit") as consumer:
                records = await consumer.read()
                while len(records) < 3:
                    records += await consumer.read()
                consumer.accept(records[0])
                consumer.release(records[1])
                consumer.reject(records[2])
                await consumer.commit()
                (again,) = await consumer.read()
                assert (again.value, again.delivery_count) == (b"v1", 2)
                with pytest.raises(ValueError, match="was not acquired"):
                    consumer.accept(records[0])
            async with consumer_of(world) as consumer:  # what was not acknowledged is released
                (again,) = await consumer.read()
                assert (again.value, again.delivery_count) == (b"v1", 3)

    asyncio.run(scenario())


def test_a_record_that_is_released_with_a_delay_waits_where_the_group_allows_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world, 2, partitions=1)
            await world.configure("g", {"kavka.share.redelivery.delay.max.ms": "60000"})
            async with consumer_of(world, acknowledgement="explicit") as consumer:
                records = await consumer.read()
                while len(records) < 2:
                    records += await consumer.read()
                consumer.release(records[0], delay_ms=60_000)
                consumer.release(records[1])
                await consumer.commit()
                (again,) = await consumer.read()
                assert (again.value, again.delivery_count) == (b"v1", 2)
                consumer.accept(again)
                assert await consumer.read(500) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("renew", [True, False])
def test_locks_are_renewed_in_the_background(tmp_path: Path, renew: bool) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, SHORT) as world:
            await prepared(world, 1, partitions=1)
            async with (
                consumer_of(world, acknowledgement="explicit", renew=renew) as slow,
                consumer_of(world) as other,
            ):
                (record,) = await slow.read()
                others = await other.read(2500)
                slow.accept(record)
                if renew:
                    await slow.commit()
                    assert others == []
                else:
                    assert [(one.value, one.delivery_count) for one in others] == [(b"v0", 2)]
                    with pytest.raises(InvalidRecordState):
                        await slow.commit()

    asyncio.run(scenario())


async def fail(world: World) -> None:
    async with consumer_of(world) as consumer:
        assert [record.delivery_count for record in await consumer.read()] == [1]
        raise ArithmeticError


def test_an_exception_releases_what_was_given_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world, 1, partitions=1)
            with pytest.raises(ArithmeticError):
                await fail(world)
            async with consumer_of(world) as consumer:
                assert [record.delivery_count for record in await consumer.read()] == [2]

    asyncio.run(scenario())


def test_the_blocking_share_consumer() -> None:
    with Cluster() as cluster, Client(cluster.bootstrap) as client:
        client.admin.create_topic("jobs", partitions=1)
        with client.share_consumer("g", "jobs", acknowledgement="explicit") as consumer:
            while not consumer.assignment:
                consumer.read(100)
            consumer.read(500)  # the group begins at what is the end now
            with client.producer() as producer:
                producer.send("jobs", b"job").result()
            (record,) = consumer.read(10_000)
            assert (record.value, record.delivery_count) == (b"job", 1)
            consumer.renew()
            consumer.accept(record)
            consumer.commit()
            assert consumer.read(300) == []
