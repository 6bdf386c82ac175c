"""Nodes are killed under load while a failing store is copied to: nothing acknowledged is lost, nothing left over."""

from __future__ import annotations

import asyncio
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.scale import rounds
from tests.tiering import EARLIEST, EARLIEST_LOCAL, FAST, until

from cluster.load import Load
from cluster.looking import admin, await_healthy, create, leader_of
from crash.test_transactions import Workers, count_of, read_all, settled
from crash.transacting import TOPICS as TRANSACTED
from kavka.catalog.machine import Catalogue
from kavka.cli.tiers import read_catalogue
from kavka.client import Pool
from kavka.client.offsets import list_offsets
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing import Cluster
from kavka.testing.checker import History, check, load
from kavka.tiered.objects.opening import open_segments
from kavka.tiered.scrub import damaged, finished, orphans

METADATA = "__remote_log_metadata"
ROUNDS = rounds(full=60, ci=1)
PARTITIONS = 2
WRITERS = ["w0", "w1"]
TIERED = {
    "remote.storage.enable": "true",
    "min.insync.replicas": "2",
    "internal.segment.bytes": "4096",
    "local.retention.bytes": "4096",
    "retention.ms": "-1",
}
TOPICS = {"orders": PARTITIONS, "passing": 1, **TRANSACTED}
NODES = {
    **FAST,
    "kavka.remote.storage.timeout.ms": "500",
    "default.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "200",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_what_was_acknowledged_is_read_and_the_store_agrees_with_the_catalogue(
    tmp_path: Path, rng: random.Random
) -> None:
    flag, store = tmp_path / "failing", tmp_path / "store"
    flag.touch()
    config = {**NODES, "kavka.remote.storage.url": f"file://{store}"}
    program = [sys.executable, str(Path(__file__).with_name("node_with_store.py")), str(flag), str(store)]
    with Cluster(nodes=3, config=config, data_dir=tmp_path / "cluster", program=program, timeout=120) as cluster:
        client = admin(cluster.bootstrap, 60_000)
        for topic, partitions in TOPICS.items():
            create(client, topic, partitions, **TIERED, **({"retention.bytes": "12288"} if topic == "passing" else {}))
        workers = Workers("write", WRITERS, cluster.bootstrap, tmp_path, rng)
        try:
            disturb(cluster, client, workers, rng)
            flag.unlink()
            history = settled(cluster.bootstrap, workers, WRITERS, list(TRANSACTED), tmp_path)
        finally:
            workers.stop()
        assert check(history) == []
        assert count_of(history, "committed") > ROUNDS
        asyncio.run(settles(cluster.bootstrap, store))
        read_again = str(tmp_path / "again.history")
        asyncio.run(read_all(cluster.bootstrap, list(TRANSACTED), History(read_again)))  # now most of it is remote
        assert check(load([*workers.histories, read_again])) == []


def disturb(cluster: Cluster, client: AdminClient, workers: Workers, rng: random.Random) -> None:
    """Kill nodes and writers under load, while segments are copied, expire and go with their topics."""
    small = {"batch.size": 2_000}
    with (
        Load(cluster.bootstrap, "orders", PARTITIONS, rate=300, **small) as load,
        Load(cluster.bootstrap, "passing", 1, rate=100, **small),
    ):
        load.await_acks(200)
        for number in range(ROUNDS):
            gone = f"gone-{number}"
            create(client, gone, 1, **TIERED)
            with Load(cluster.bootstrap, gone, 1, rate=1_000, **small) as short:
                short.await_acks(400)
            victim = rng.choice([1, 2, 3, leader_of(client, "orders"), leader_of(client, METADATA)])
            client.delete_topics([gone])[gone].result()
            cluster.kill(victim)
            if number % 3 == 0:
                workers.kill_one()
            load.await_acks(100)
            cluster.start(victim)
            for topic in TOPICS:
                await_healthy(client, topic, 3)
        load.finish()
    assert load.check() > 0


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
                return not left and not bad and await has_expired(pool)

            await until(agrees, "store and catalogue agree")


async def has_let_go(pool: Pool) -> bool:
    wanted = {TopicPartition("orders", index): EARLIEST_LOCAL for index in range(PARTITIONS)}
    try:
        return all(found.offset > 0 for found in (await list_offsets(pool, wanted)).values())
    except KafkaError:
        return False


async def has_expired(pool: Pool) -> bool:
    passing = TopicPartition("passing", 0)
    return (await list_offsets(pool, {passing: EARLIEST}))[passing].offset > 0


def unfinished(catalogue: Catalogue) -> int:
    """How many segments are being copied or deleted."""
    held = catalogue.partitions.values()
    return sum(one.state.name != "COPY_SEGMENT_FINISHED" for each in held for one in each.segments())
