"""Three nodes and one store: followers begin after what is remote, any of them can lead, and topics go for good."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.tiering import (
    EARLIEST,
    EARLIEST_LOCAL,
    FAST,
    LATEST_TIERED,
    PATIENCE,
    TOPIC,
    World,
    until,
    value_of,
)

from kavka.client import Pool
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing import Cluster

TP = TopicPartition(TOPIC, 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    config = {
        **FAST,
        "kavka.remote.storage.url": f"file://{tmp_path}/store",
        "offsets.topic.replication.factor": "3",
        "replica.lag.time.max.ms": "3000",
        "replica.fetch.wait.max.ms": "200",
    }
    with Cluster(nodes=3, config=config, data_dir=tmp_path / "cluster", timeout=120) as made:
        yield made


def play(cluster: Cluster, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(4 * PATIENCE), Pool(cluster.bootstrap) as pool:
            await scenario(World(cluster.bootstrap, pool))

    asyncio.run(whole())


def stored(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "store").rglob("*") if path.is_file())


async def in_sync(world: World, *nodes: int) -> None:
    async def is_so() -> bool:
        try:
            described = await world.admin.describe_topic(TOPIC)
        except KafkaError:
            return False
        return set(described.partitions[0].isr) == set(nodes)

    await until(is_so, f"in sync are {nodes}")


async def lead(world: World, node: int) -> None:
    """Let a node lead, by making it the first replica and asking for an election."""
    others = [one for one in (1, 2, 3) if one != node]
    await world.admin.reassign({TP: [node, *others]})

    async def leads() -> bool:
        with contextlib.suppress(KafkaError):
            await world.admin.elect_leaders([TP])
        return (await world.admin.describe_topic(TOPIC)).partitions[0].leader == node

    await until(leads, f"{node} leads")
    await world.pool.refresh([TOPIC])


def test_a_follower_that_lost_its_disk_begins_after_what_is_remote_and_can_lead(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def fill(world: World) -> None:
        await world.create(replicas=3)
        await in_sync(world, 1, 2, 3)
        await lead(world, 1)
        await world.produce(*range(6))
        cluster.kill(3)
        await world.produce(*range(6, 20))
        await world.becomes(LATEST_TIERED, 17)
        await world.becomes(EARLIEST_LOCAL, 18)

    async def come_back(world: World) -> None:
        await in_sync(world, 1, 2, 3)
        await lead(world, 3)
        assert await world.offsets(EARLIEST, EARLIEST_LOCAL, LATEST_TIERED) == [0, 18, 17]
        await world.produce(*range(20, 24))
        await world.becomes(LATEST_TIERED, 21)
        assert await world.read() == [value_of(number) for number in range(24)]

    play(cluster, fill)
    shutil.rmtree(tmp_path / "cluster" / "node-3" / "data" / f"{TOPIC}-0")
    cluster.start(3)
    play(cluster, come_back)
    assert "log starts locally at 18, after what is in tiered storage" in cluster.node(3).log


def test_a_deleted_topic_leaves_nothing_in_the_store_even_if_a_node_dies_meanwhile(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def scenario(world: World) -> None:
        await world.create(replicas=3)
        await world.produce(*range(10))
        await world.becomes(LATEST_TIERED, 7)
        leader = (await world.admin.describe_topic(TOPIC)).partitions[0].leader
        await world.admin.delete_topic(TOPIC)
        cluster.kill(leader)
        cluster.start(leader)

        async def gone() -> bool:
            return not stored(tmp_path)

        await until(gone, "the store is empty")

    play(cluster, scenario)


def test_replicas_that_move_begin_after_what_is_remote(cluster: Cluster) -> None:
    async def scenario(world: World) -> None:
        await world.create(replicas=1)
        await world.produce(*range(20))
        await world.becomes(EARLIEST_LOCAL, 18)
        first = (await world.admin.describe_topic(TOPIC)).partitions[0].leader
        others = [one for one in (1, 2, 3) if one != first]
        for replicas in ([first, others[0]], [others[0], others[1]], [others[1]]):  # expand, move, shrink
            await world.admin.reassign({TP: replicas})
            await in_sync(world, *replicas)
            await until(lambda: is_placed(world), f"replicas are {replicas}")
            await world.pool.refresh([TOPIC])
            assert await world.read() == [value_of(number) for number in range(20)]
            assert await world.offsets(EARLIEST, LATEST_TIERED) == [0, 17]

    play(cluster, scenario)


async def is_placed(world: World) -> bool:
    return not await world.admin.reassignments()
