"""Secured nodes that tier: one that stands alone logs in to itself for the catalogue, three to each other."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from tests.tiering import EARLIEST_LOCAL, FAST, LATEST_TIERED, TOPIC, World, until, value_of

from kavka.broker.config import node_config
from kavka.broker.wiring import Node
from kavka.client import Pool
from kavka.model.clock import SystemClock
from kavka.model.errors import KafkaError
from kavka.model.settings import SettingError
from kavka.storage.disk import RealDisk
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured


def config_of(secured: Secured, folder: Path) -> dict[str, str]:
    listeners = f"SASL_SSL://127.0.0.1:{free_ports(1)[0]}"
    store = {"kavka.remote.storage.url": f"file://{folder}/store"}
    return {"listeners": listeners, **secured.nodes, **FAST, **store}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_secured_node_that_stands_alone_tiers_and_reads_back(tmp_path: Path, mechanism: str) -> None:
    secured = Secured(tmp_path / "secured", mechanism=mechanism)

    async def tier(bootstrap: str) -> None:
        async with Pool(bootstrap, security=secured.client()) as pool:
            world = World(bootstrap, pool)
            await world.create()
            await world.produce(*range(10))
            await world.becomes(LATEST_TIERED, 7)
            await world.becomes(EARLIEST_LOCAL, 8)
            assert await world.read() == [value_of(number) for number in range(10)]

    with Cluster(config=config_of(secured, tmp_path), users=secured.users) as cluster:
        asyncio.run(tier(str(cluster.bootstrap)))


def test_three_secured_nodes_tier_and_the_next_leader_reads_back(tmp_path: Path) -> None:
    secured = Secured(tmp_path / "secured")
    config = {**secured.nodes, **FAST, "kavka.remote.storage.url": f"file://{tmp_path}/store"}

    async def tier(cluster: Cluster) -> None:
        async with Pool(cluster.bootstrap, security=secured.client()) as pool:
            world = World(str(cluster.bootstrap), pool)
            await world.create(replicas=3)
            await world.produce(*range(10))
            await world.becomes(EARLIEST_LOCAL, 8)
            leader = (await world.admin.describe_topic(TOPIC)).partitions[0].leader
            cluster.kill(leader)

            async def is_led() -> bool:
                with contextlib.suppress(KafkaError):
                    return (await world.admin.describe_topic(TOPIC)).partitions[0].leader not in (-1, leader)
                return False

            await until(is_led)
            await world.pool.refresh([TOPIC])
            await world.produce(*range(10, 14))
            await world.becomes(EARLIEST_LOCAL, 12)
            assert await world.read() == [value_of(number) for number in range(14)]

    with Cluster(nodes=3, config=config, users=secured.users, timeout=120) as cluster:
        asyncio.run(tier(cluster))


def test_without_a_login_of_its_own_the_node_says_so_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    config = config_of(Secured(tmp_path / "secured"), tmp_path)
    texts = {key: text for key, text in config.items() if "jaas" not in key} | {"log.dirs": str(tmp_path / "data")}
    with pytest.raises(SettingError, match="for this node's own log-in on SASL_SSL"):
        Node(node_config(texts), RealDisk(), SystemClock())
