"""The cases of Kafka's own integration tests of tiered storage (storage module, 4.3), each on a topic of one cluster.

Where Kafka's tests look into a broker's objects, these ask as clients do: special offsets, records, what lies in the
store. The last ones, from new replicas on, are not among Kafka's.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.tiering import (
    EARLIEST,
    EARLIEST_LOCAL,
    FAST,
    LATEST,
    LATEST_TIERED,
    PATIENCE,
    World,
    batch_bytes,
    until,
    value_of,
)

from kavka.client import ConfigResource, Pool, Producer, ResourceType
from kavka.client.offsets import list_offsets
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing import Cluster

NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
KEEP_ON_DISK = {"remote.log.copy.disable": "true", "local.retention.bytes": "-2", "local.retention.ms": "-2"}
COPY_AGAIN = {"remote.log.copy.disable": "false", "local.retention.bytes": "1"}
GIVE_UP = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


class Case:
    """A topic of its own on the shared cluster, and what the cases say of it."""

    numbers = count()

    def __init__(self, cluster: Cluster, world: World, store: Path) -> None:
        self.cluster = cluster
        self.world = world
        self.admin = world.admin
        self.topic = f"case-{next(self.numbers)}"
        self._store = store
        self._written: dict[int, int] = {}

    async def create(self, *replicas: list[int], batches: int = 1, tiered: bool = True) -> None:
        """A topic whose partitions have these replicas, with so many batches to a segment."""
        configs = {
            "remote.storage.enable": str(tiered).lower(),
            "internal.segment.bytes": str(batches * batch_bytes()),
            "index.interval.bytes": "1",
            "local.retention.bytes": "1",
            "retention.bytes": "-1",
            "retention.ms": "-1",
        }
        await self.admin.create_topic(self.topic, assignments=dict(enumerate(replicas)), configs=configs)
        for index in range(len(replicas)):
            await self.leads(replicas[index][0], index)

    async def produce(self, records: int, partition: int = 0, times_ms: list[int] | None = None) -> None:
        """So many more records, each a batch, numbered from 0 on."""
        first = self._written.get(partition, 0)
        self._written[partition] = first + records
        async with Producer(self.world.pool, linger_ms=0) as producer:
            for number in range(first, first + records):
                at_ms = times_ms[number - first] if times_ms is not None else NOW_MS + number
                await producer.send_and_wait(self.topic, value_of(number), partition=partition, timestamp=at_ms)

    def forget(self, end: int, partition: int = 0) -> None:
        """The log has lost what was written from an offset on: others are numbered like it."""
        self._written[partition] = end

    async def configure(self, configs: dict[str, str]) -> None:
        await self.admin.alter_configs(ConfigResource(ResourceType.TOPIC, self.topic), set=configs)

    async def disk_starts_at(self, offset: int, partition: int = 0) -> None:
        await self.world.becomes(EARLIEST_LOCAL, offset, self.topic, partition)

    async def log_starts_at(self, offset: int, partition: int = 0) -> None:
        await self.world.becomes(EARLIEST, offset, self.topic, partition)

    async def stored(self, *starts: int, partition: int = 0) -> None:
        """The store comes to have segments that start at these offsets, and no others."""

        async def so() -> bool:
            return sorted(self.segments(partition)) == sorted(starts)

        await until(so, f"{self.topic}-{partition} is stored from {starts}: {sorted(self.segments(partition))}")

    def segments(self, partition: int) -> list[int]:
        folders = (self._store / "kafka-tiered-storage").glob(f"{self.topic}-{partition}-*")
        return [int(path.name[:20]) for folder in folders for path in folder.glob("*.log")]

    async def consumed(self, start: int, records: int, partition: int = 0) -> None:
        """A consumer that begins at an offset gets so many records, to the end of the log."""
        found = await self.world.read(self.topic, partition, start=start, committed=True)
        first = self._written[partition] - records
        assert found == [value_of(number) for number in range(first, self._written[partition])]

    async def reassign(self, replicas: list[int], partition: int = 0) -> None:
        await self.admin.reassign({TopicPartition(self.topic, partition): replicas})

        async def is_so() -> bool:
            with contextlib.suppress(KafkaError):
                row = (await self.admin.describe_topic(self.topic)).partitions[partition]
                return set(row.isr) == set(replicas) == set(row.replicas)
            return False

        await until(is_so, f"{self.topic}-{partition} is on {replicas}")

    async def leads(self, node: int, partition: int = 0) -> None:
        """A node comes to lead; it is elected if it is the preferred one."""
        tp = TopicPartition(self.topic, partition)

        async def is_so() -> bool:
            with contextlib.suppress(KafkaError):
                await self.admin.elect_leaders([tp])
            with contextlib.suppress(KafkaError):
                return (await self.admin.describe_topic(self.topic)).partitions[partition].leader == node
            return False

        await until(is_so, f"{node} leads {tp}")
        await self.world.pool.refresh([self.topic])

    async def move(self, node: int, partition: int = 0) -> None:
        """A node's replica goes to the other disk of the node."""
        tp = TopicPartition(self.topic, partition)

        async def places() -> dict[str, bool]:
            (dirs,) = (await self.admin.describe_log_dirs([tp], nodes=[node])).values()
            return {each.path: tp in each.replicas and not each.replicas[tp].is_future for each in dirs}

        (target,) = (path for path, there in (await places()).items() if not there)
        await self.admin.move_replicas(node, {tp: target})

        async def is_there() -> bool:
            return (await places())[target]

        await until(is_there, f"{tp} is in {target}")

    async def found(self, which: int) -> tuple[int, int]:
        """Leader epoch and offset that ListOffsets finds."""
        tp = TopicPartition(self.topic, 0)
        row = (await list_offsets(self.world.pool, {tp: which}))[tp]
        return row.leader_epoch, row.offset


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    folder = tmp_path_factory.mktemp("cases")
    config = {
        **FAST,
        "kavka.remote.storage.url": f"file://{folder}/store",
        "remote.log.index.file.cache.total.size.bytes": "1",
        "replica.lag.time.max.ms": "3000",
        "replica.fetch.wait.max.ms": "200",
    }
    with Cluster(nodes=3, config=config, disks=2, data_dir=folder / "cluster", timeout=120) as made:
        yield made, folder / "store"


Play = Callable[[Callable[[Case], Awaitable[None]]], None]


@pytest.fixture
def play(shared: tuple[Cluster, Path]) -> Play:
    cluster, store = shared

    def run(scenario: Callable[[Case], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with asyncio.timeout(4 * PATIENCE), Pool(cluster.bootstrap) as pool:
                await scenario(Case(cluster, World(cluster.bootstrap, pool), store))

        asyncio.run(whole())

    return run


@pytest.mark.parametrize("limit", ["retention.bytes", "retention.ms"])
def test_delete_segments_by_retention(play: Play, limit: str) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1])
        await case.produce(4, times_ms=[NOW_MS - HOUR_MS] * 3 + [NOW_MS + HOUR_MS])
        await case.stored(0, 1, 2)
        await case.disk_starts_at(3)
        await case.configure({limit: "1"})
        await case.stored()
        await case.log_starts_at(3)
        assert await case.found(EARLIEST) == (0, 3)
        await case.consumed(0, 1)

    play(scenario)


def test_delete_segments_due_to_log_start_offset_breach(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2], batches=2)
        tp = TopicPartition(case.topic, 0)
        await case.produce(5)
        await case.stored(0, 2)
        await case.disk_starts_at(4)
        await case.admin.delete_records({tp: 3})
        await case.stored(2)
        assert await case.found(EARLIEST) == (0, 3)
        await case.consumed(3, 2)
        await case.reassign([2, 1])
        await case.leads(2)
        await case.produce(5)
        await case.stored(2, 4, 6)
        await case.disk_starts_at(8)
        await case.admin.delete_records({tp: 7})
        await case.stored(6)
        await case.consumed(7, 3)

    play(scenario)


def test_delete_topic(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2], [2, 1])
        for partition in (0, 1):
            await case.produce(3, partition)
            await case.stored(0, 1, partition=partition)
            await case.disk_starts_at(2, partition)
        await case.admin.delete_topic(case.topic)
        for partition in (0, 1):
            await case.stored(partition=partition)

    play(scenario)


def test_disable_remote_log_on_topic(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2])
        await case.produce(3)
        await case.stored(0, 1)
        await case.disk_starts_at(2)
        await case.configure(KEEP_ON_DISK)
        await case.consumed(0, 3)
        await case.configure(COPY_AGAIN)
        await case.produce(1)
        await case.disk_starts_at(3)
        await case.configure(KEEP_ON_DISK)
        await case.consumed(0, 4)
        await case.admin.delete_records({TopicPartition(case.topic, 0): 1})
        await case.stored(1, 2)
        await case.configure(GIVE_UP)
        await case.stored()
        await case.consumed(3, 1)

    play(scenario)


def test_enable_remote_log_on_topic(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2], [2, 1], tiered=False)
        for partition in (0, 1):
            await case.produce(3, partition)
            await case.disk_starts_at(0, partition)
        await case.configure({"remote.storage.enable": "true"})
        for partition in (0, 1):
            await case.produce(2, partition)
            await case.stored(0, 1, 2, 3, partition=partition)
            await case.disk_starts_at(4, partition)
            await case.consumed(0, 5, partition)

    play(scenario)


def test_list_offsets(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2], batches=2)
        await case.produce(3)
        await case.stored(0)
        await case.disk_starts_at(2)
        await case.reassign([2, 1])
        await case.leads(2)
        await case.produce(3)
        await case.stored(0, 2)
        await case.disk_starts_at(4)
        assert [await case.found(which) for which in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, LATEST)] == [
            (0, 0),
            (1, 4),
            (1, 3),
            (1, 6),
        ]
        for late, expected in ((6, (-1, -1)), (5, (1, 5)), (4, (1, 4)), (-1, (0, 0)), (0, (0, 0)), (1, (0, 1))):
            assert await case.found(NOW_MS + late) == expected
        assert await case.found(NOW_MS + 3) == (1, 3)
        tp = TopicPartition(case.topic, 0)
        await case.admin.delete_records({tp: 3})
        assert [await case.found(which) for which in (EARLIEST, EARLIEST_LOCAL)] == [(1, 3), (1, 4)]
        await case.admin.delete_records({tp: 4})
        assert [await case.found(which) for which in (EARLIEST, EARLIEST_LOCAL)] == [(1, 4), (1, 4)]
        assert [await case.found(which) for which in (LATEST_TIERED, LATEST)] == [(-1, 3), (1, 6)]

    play(scenario)


@pytest.mark.parametrize("committed", ["data", "transactions"])
def test_offload_and_consume_committed(play: Play, committed: str) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1], batches=1 if committed == "data" else 2)  # a marker is larger than a record
        if committed == "data":
            await case.produce(7)
            await case.stored(*range(6))
            await case.disk_starts_at(6)
            await case.consumed(0, 7)
            return
        async with Producer(case.world.pool, transactional_id=case.topic, linger_ms=0) as producer:
            for number in range(6):  # each is a record and a marker, and each of these a segment
                producer.begin()
                await producer.send_and_wait(case.topic, value_of(number), partition=0)
                await (producer.abort() if number % 3 == 1 else producer.commit())
        await case.stored(*range(11))
        await case.disk_starts_at(11)
        read = await case.world.read(case.topic, committed=True)
        assert read == [value_of(number) for number in (0, 2, 3, 5)]
        assert len(await case.world.read(case.topic)) == 6

    play(scenario)


def test_partitions_expand(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2])
        await case.produce(3)
        await case.disk_starts_at(2)
        await case.admin.create_partitions(case.topic, 3, assignments=[[1, 2], [2, 1]])
        await case.consumed(0, 3)
        await case.leads(1, 1)
        await case.leads(2, 2)
        for partition in (1, 2):
            await case.produce(3, partition)
            await case.stored(0, 1, partition=partition)
            await case.disk_starts_at(2, partition)
        await case.produce(3)
        await case.stored(*range(5))
        await case.disk_starts_at(5)
        await case.consumed(0, 6)
        await case.consumed(0, 3, 1)
        await case.consumed(1, 2, 2)

    play(scenario)


@pytest.mark.parametrize("replicas", [[2, 1], [2]], ids=["expand", "move"])
def test_reassign_replica(play: Play, replicas: list[int]) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1])
        await case.produce(3)
        await case.stored(0, 1)
        await case.disk_starts_at(2)
        await case.reassign(replicas)
        await case.leads(2)
        await case.produce(1)
        await case.disk_starts_at(3)
        await case.stored(0, 1, 2)
        await case.consumed(0, 4)

    play(scenario)


def test_reassign_replica_shrink(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2], [2, 1])
        for partition in (0, 1):
            await case.produce(3, partition)
            await case.disk_starts_at(2, partition)
        await case.reassign([2], 0)
        await case.reassign([1], 1)
        await case.leads(2, 0)
        await case.leads(1, 1)
        for partition in (0, 1):
            await case.produce(1, partition)
            await case.disk_starts_at(3, partition)
            await case.consumed(0, 4, partition)

    play(scenario)


def test_roll_and_offload_active_segment(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1])
        await case.configure({"local.retention.ms": "1"})
        await case.produce(4, times_ms=[NOW_MS - HOUR_MS] * 4)
        await case.stored(*range(4))
        await case.disk_starts_at(4)
        await case.consumed(0, 4)

    play(scenario)


def test_offload_and_consume_from_leader_that_was_bounced(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1], batches=2)
        await case.produce(5)
        await case.stored(0, 2)
        await case.disk_starts_at(4)
        await asyncio.to_thread(case.cluster.restart, 1)
        await case.leads(1)
        await case.disk_starts_at(4)
        await case.consumed(1, 4)

    play(scenario)


def test_fetch_from_leader_with_corrupted_checkpoint(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2])
        await case.produce(3)
        await case.disk_starts_at(2)
        await case.consumed(0, 3)
        await asyncio.to_thread(case.cluster.stop, 2)
        await asyncio.to_thread(case.cluster.stop, 1)
        found = {path.parent for path in case.cluster.data_dir.rglob("node-1/**/recovery-point-offset-checkpoint")}
        assert found
        for folder in found:
            for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
                (folder / name).unlink(missing_ok=True)
        await asyncio.to_thread(case.cluster.start, 1)
        await asyncio.to_thread(case.cluster.start, 2)
        await case.leads(1)
        await case.produce(2)
        await case.stored(*range(4))
        await case.disk_starts_at(4)
        await case.consumed(0, 5)

    play(scenario)


def test_alter_log_dir(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([2, 1])
        await case.produce(3)
        await case.stored(0, 1)
        await case.disk_starts_at(2)
        await case.move(1)
        await case.reassign([1, 2])
        await case.leads(1)
        await case.produce(1)
        await case.disk_starts_at(3)
        await case.stored(0, 1, 2)
        await case.consumed(0, 4)

    play(scenario)


@pytest.mark.parametrize(("after_tiered", "log_start"), [(False, 0), (True, 0), (True, 2)])
def test_a_new_replica_begins_where_it_is_told_to(play: Play, after_tiered: bool, log_start: int) -> None:
    """KIP-1023: what is tiered and still on the leader's disk need not be copied to the new replica's."""
    switch = {"follower.fetch.last.tiered.offset.enable": str(after_tiered).lower()}

    async def scenario(case: Case) -> None:
        await case.admin.alter_configs(ConfigResource(ResourceType.BROKER, ""), set=switch)
        await case.create([1])
        await case.configure({"local.retention.bytes": str(3 * batch_bytes())})
        await case.produce(7)
        await case.world.becomes(LATEST_TIERED, 5, case.topic)
        await case.disk_starts_at(4)
        if log_start > 0:
            await case.admin.delete_records({TopicPartition(case.topic, 0): log_start})
        await case.reassign([2, 1])
        await case.leads(2)
        assert [(await case.found(each))[1] for each in (EARLIEST, EARLIEST_LOCAL)] == [
            log_start,
            6 if after_tiered else 4,
        ]
        await case.consumed(log_start, 7 - log_start)

    play(scenario)


def test_an_unclean_leader_reads_its_own_history_out_of_the_tier(play: Play) -> None:
    async def scenario(case: Case) -> None:
        await case.create([1, 2])
        await case.configure({"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
        await case.produce(4)
        await case.disk_starts_at(3)
        await asyncio.to_thread(case.cluster.stop, 2)
        await case.produce(4)
        await case.stored(*range(7))  # the last four are known to the leader alone, three of them are in the store
        await asyncio.to_thread(case.cluster.kill, 1)
        await asyncio.to_thread(case.cluster.start, 2)
        await case.leads(2)
        case.forget(4)
        await case.produce(3)
        await case.disk_starts_at(6)
        await case.consumed(0, 7)
        await asyncio.to_thread(case.cluster.start, 1)
        await case.reassign([1, 2])
        await case.leads(1)
        await case.consumed(0, 7)

    play(scenario)
