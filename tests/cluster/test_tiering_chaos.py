"""Nodes are killed under load while a failing store is copied to: nothing acknowledged is lost, nothing left over."""

from __future__ import annotations

import asyncio
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.scale import FULL, rounds
from tests.tiering import EARLIEST_LOCAL, FAST, until

from cluster.load import Load
from cluster.looking import admin, await_healthy, create, leader_of
from kavka.catalog.machine import Catalogue
from kavka.cli.tiers import read_catalogue
from kavka.client import Pool
from kavka.client.offsets import list_offsets
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing import Cluster
from kavka.tiered.objects.opening import open_segments
from kavka.tiered.scrub import damaged, finished, orphans

METADATA = "__remote_log_metadata"
PARTITIONS = 2


@pytest.mark.skipif(not FULL, reason="kills nodes and fails the store for minutes: KAVKA_SCALE=full runs it")
@pytest.mark.timeout(3600)
def test_what_was_acknowledged_is_read_and_the_store_agrees_with_the_catalogue(
    tmp_path: Path, rng: random.Random
) -> None:
    flag, store = tmp_path / "failing", tmp_path / "store"
    flag.touch()
    config = {
        **FAST,
        "kavka.remote.storage.url": f"file://{store}",
        "kavka.remote.storage.timeout.ms": "500",
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "200",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    program = [sys.executable, str(Path(__file__).with_name("node_with_store.py")), str(flag), str(store)]
    with Cluster(nodes=3, config=config, data_dir=tmp_path / "cluster", program=program, timeout=120) as cluster:
        client = admin(cluster.bootstrap)
        topic = {"internal.segment.bytes": "4096", "local.retention.bytes": "4096", "retention.ms": "-1"}
        create(client, "orders", PARTITIONS, **topic, **{"remote.storage.enable": "true", "min.insync.replicas": "2"})
        with Load(cluster.bootstrap, "orders", PARTITIONS, rate=300, **{"batch.size": 2_000}) as load:
            load.await_acks(200)
            for _ in range(rounds(60, 4)):
                victim = rng.choice([1, 2, 3, leader_of(client, "orders"), leader_of(client, METADATA)])
                cluster.kill(victim)
                load.await_acks(100)
                cluster.start(victim)
                await_healthy(client, "orders", 3)
            load.finish()
        flag.unlink()
        await_healthy(client, "orders", 3)
        assert load.check() > 0
        asyncio.run(settles(cluster.bootstrap, store))
        assert load.check() > 0  # now most of it out of the store


async def settles(bootstrap: str, store: Path) -> None:
    """After a while the disk has let go, and catalogue and store say the same."""
    async with Pool(bootstrap) as pool:
        await until(lambda: has_let_go(pool), "old segments are in the store alone")
        with ThreadPoolExecutor(4) as threads:
            segments = open_segments(f"file://{store}", threads)

            async def agrees() -> bool:
                catalogue = await read_catalogue(pool)
                if unfinished(catalogue):
                    return False
                held = list(catalogue.partitions.values())
                left = [one.info.key async for one in orphans(segments, held)]
                bad = [one async for one in damaged(segments, finished(held), deep=True)]
                return not left and not bad

            await until(agrees, "store and catalogue agree")


async def has_let_go(pool: Pool) -> bool:
    wanted = {TopicPartition("orders", index): EARLIEST_LOCAL for index in range(PARTITIONS)}
    try:
        return all(found.offset > 0 for found in (await list_offsets(pool, wanted)).values())
    except KafkaError:
        return False


def unfinished(catalogue: Catalogue) -> int:
    """How many segments are being copied or deleted."""
    held = catalogue.partitions.values()
    return sum(one.state.name != "COPY_SEGMENT_FINISHED" for each in held for one in each.segments())
