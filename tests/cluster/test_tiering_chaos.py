"""Nodes are killed under load while a failing store is copied to: nothing acknowledged is lost, nothing left over."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.scale import rounds
from tests.tiering import EARLIEST, EARLIEST_LOCAL, FAST, PATIENCE, until

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
ROUNDS = int(os.environ.get("KAVKA_ROUNDS", rounds(full=60, ci=1)))
PARTITIONS = 2
WRITERS = ["w0", "w1"]
ENOUGH_TO_EXPIRE = 2_000
"""So many records, of ten bytes or more, are longer than what passing retains and a segment."""
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
    tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

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
            orders = disturb(cluster, client, workers, rng, tell)
            flag.unlink()
            history = settled(cluster.bootstrap, workers, WRITERS, list(TRANSACTED), tmp_path)
        finally:
            workers.stop()
        assert check(history) == []
        assert count_of(history, "committed") > ROUNDS
        asyncio.run(settles(cluster.bootstrap, store))
        tell("store and catalogue agree")
        assert orders.check() > 0
        read_again = str(tmp_path / "again.history")
        asyncio.run(read_all(cluster.bootstrap, list(TRANSACTED), History(read_again)))  # now most of it is remote
        assert check(load([*workers.histories, read_again])) == []
        tell(f"{count_of(history, 'committed')} committed transactions read again")


def disturb(
    cluster: Cluster, client: AdminClient, workers: Workers, rng: random.Random, tell: Callable[[str], None]
) -> Load:
    """Kill nodes and writers under load, while segments are copied, expire and go with their topics; the load."""
    small = {"batch.size": 2_000}
    with (
        Load(cluster.bootstrap, "orders", PARTITIONS, rate=300, **small) as load,
        Load(cluster.bootstrap, "passing", 1, rate=300, **small) as passing,
    ):
        load.await_acks(200)
        for number in range(ROUNDS):
            began = time.monotonic()
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
            tell(f"round {number + 1} of {ROUNDS}: node {victim} killed, {time.monotonic() - began:.0f} s")
        passing.await_acks(max(0, ENOUGH_TO_EXPIRE - passing.count))
        load.finish()
    tell(f"{load.check()} records of orders read in order while the store fails")
    return load


async def settles(bootstrap: str, store: Path) -> None:
    """After a while the disk has let go, catalogue and store say the same, and every segment is whole."""
    async with Pool(bootstrap) as pool:
        await until(lambda: has_let_go(pool), "old segments are in the store alone")
        with ThreadPoolExecutor(4) as threads:
            segments = open_segments(f"file://{store}", threads)

            differ: list[str] = []

            async def agreed() -> Catalogue | None:
                catalogue = await read_catalogue(pool)
                differ[:] = unfinished(catalogue)
                differ.extend([] if await has_expired(pool) else ["nothing of passing has expired"])
                if not differ:
                    differ.extend([str(one.info) async for one in orphans(segments, catalogue.partitions.values())])
                    differ.extend([one.key for one in await segments.objects.abandoned(remove=False)])
                return None if differ else catalogue

            try:
                catalogue = await until(agreed, patience=PATIENCE + 10 * ROUNDS)
            except AssertionError as never:
                raise AssertionError("store and catalogue differ in\n" + "\n".join(differ)) from never
            held = finished(catalogue.partitions.values())
            assert [one async for one in damaged(segments, held, deep=True)] == []


async def has_let_go(pool: Pool) -> bool:
    wanted = {TopicPartition("orders", index): EARLIEST_LOCAL for index in range(PARTITIONS)}
    try:
        return all(found.offset > 0 for found in (await list_offsets(pool, wanted)).values())
    except KafkaError:
        return False


async def has_expired(pool: Pool) -> bool:
    passing = TopicPartition("passing", 0)
    return (await list_offsets(pool, {passing: EARLIEST}))[passing].offset > 0


def unfinished(catalogue: Catalogue) -> list[str]:
    """The segments that are being copied or deleted."""
    held = catalogue.partitions.values()
    return [str(one) for each in held for one in each.segments() if one.state.name != "COPY_SEGMENT_FINISHED"]
