"""Three nodes that are killed and held still, and members of a share group that do what members do."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from cluster.share_history import Delivery, Said, ShareHistory, Where
from kavka.client import Admin, ConfigResource, Producer, ResourceType, ShareConsumer, ShareRecord
from kavka.model.errors import KafkaError
from kavka.testing import Cluster
from scale import FULL, rounds

PARTITIONS = 8
MEMBERS = rounds(40, 10)
DISRUPTIONS = rounds(120, 3)
RECORDS = rounds(20_000, 600)
LOCK_MS = 2_000
LIMIT = 5
STALE_SECONDS = 30.0
"""How long a record may lie in a member's buffer before it is looked at."""
CONFIG = {
    "min.insync.replicas": "2",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, timeout=60, config=CONFIG) as cluster:
        yield cluster


class Members:
    """The members of a group, each a task."""

    def __init__(self, bootstrap: str, rng: random.Random, history: ShareHistory) -> None:
        self._bootstrap = bootstrap
        self._rng = rng
        self._history = history
        self.calm = False
        """Whether everything is accepted from now on."""

    async def work(self, number: int) -> None:
        """Be one member after another: who dies comes back as another."""
        while True:
            try:
                await self._live(number)
            except (KafkaError, ConnectionError, TimeoutError):
                await asyncio.sleep(0.2)

    async def _live(self, number: int) -> None:
        consumer = ShareConsumer(
            self._bootstrap, group="g", topics=["jobs"], acknowledgement="explicit", max_records=10, max_wait_ms=300
        )
        async with consumer:
            member = f"{number}/{consumer.member_id}"
            while True:
                records = await consumer.read(1000)
                now = time.monotonic()
                for one in records:
                    self._history.deliveries.append(Delivery(where(one), member, one.delivery_count, now))
                if records and not self.calm and self._rng.random() < 0.02:
                    return  # it leaves without a word
                await self._answer(consumer, member, records)

    async def _answer(self, consumer: ShareConsumer, member: str, records: list[ShareRecord]) -> None:
        if records and not self.calm and self._rng.random() < 0.05:
            await asyncio.sleep(LOCK_MS / 1000 + 0.5)  # too slow: others get the records
        if records and self._rng.random() < 0.1:
            await consumer.renew()
        chosen = []
        for record in records:
            how: Any = self._rng.choices(["accept", "release", "reject"], [100, 0, 0] if self.calm else [75, 20, 5])[0]
            consumer.acknowledge(record, how)
            chosen.append((record, how))
        holds: bool | None = True
        try:
            await consumer.commit()
        except KafkaError:
            holds = None  # some of it holds, some does not
        now = time.monotonic()
        for record, how in chosen:
            self._history.said.append(Said(where(record), member, how, record.delivery_count, now, holds))


def where(record: ShareRecord) -> Where:
    return record.partition, record.offset


async def disrupt(cluster: Cluster, rng: random.Random, history: ShareHistory) -> None:
    """Kill a node, or hold it still, and let it come back."""
    node = rng.choice(cluster.nodes)
    begun = time.monotonic()
    if rng.random() < 0.5:
        await asyncio.to_thread(cluster.kill, node)
        await asyncio.sleep(rng.uniform(0.5, 3))
        await asyncio.to_thread(cluster.start, node)
    else:
        cluster.pause(node)
        await asyncio.sleep(rng.uniform(1, 11))
        cluster.resume(node)
    # leaders may change until the node is back among the others
    history.disruptions += [begun + step for step in range(int(time.monotonic() - begun) + 12)]


async def prepared(admin: Admin) -> None:
    await admin.create_topic("jobs", partitions=PARTITIONS, replication_factor=3)
    group = ConfigResource(ResourceType.GROUP, "g")
    await admin.alter_configs(group, set={"share.auto.offset.reset": "earliest"})


async def produce(bootstrap: str, count: int) -> list[Where]:
    async with Producer(bootstrap) as producer:
        sent = [
            await producer.send("jobs", str(number).encode(), partition=number % PARTITIONS) for number in range(count)
        ]
        await producer.flush()
        return [(found.partition, found.offset) for found in [await one for one in sent]]


async def settled(ready: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Return when something is so twice in a row, or the time is up: then the history tells what is wrong."""
    deadline, times = time.monotonic() + seconds, 0
    while times < 2 and time.monotonic() < deadline:
        times = times + 1 if await ready() else 0
        await asyncio.sleep(0.5)


@pytest.mark.skipif(not FULL, reason="kills and holds nodes for minutes: KAVKA_SCALE=full runs it")
@pytest.mark.timeout(3600)
def test_every_record_is_done_with_once_whatever_nodes_and_members_do(cluster: Cluster, rng: random.Random) -> None:
    history = ShareHistory(LIMIT, STALE_SECONDS)

    async def scenario() -> list[Where]:
        async with Admin(cluster.bootstrap) as admin:
            await prepared(admin)
            members = Members(cluster.bootstrap, rng, history)
            tasks = [asyncio.ensure_future(members.work(number)) for number in range(MEMBERS)]
            produced: list[Where] = []
            for _ in range(DISRUPTIONS):
                produced += await produce(cluster.bootstrap, RECORDS // DISRUPTIONS)
                await disrupt(cluster, rng, history)
            members.calm = True

            async def nothing_left() -> bool:
                """A node that was held still may say so for a moment, because it does not know what it missed."""
                if not {one.where for one in history.deliveries}.issuperset(produced):
                    return False
                try:
                    offsets = await admin.share_group_offsets("g")
                except KafkaError:
                    return False
                return len(offsets) == PARTITIONS and all(one.lag == 0 for one in offsets.values())

            await settled(nothing_left, 120)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return produced

    produced = asyncio.run(scenario())
    assert history.faults(produced) == []


def test_the_history_tells_what_cannot_be() -> None:
    first = Delivery((0, 0), "a", 1, 1.0)
    accepted = Said((0, 0), "a", "accept", 1, 2.0, True)

    def faults(
        *events: Delivery | Said, disruption: float | None = None, produced: list[Where] | None = None
    ) -> list[str]:
        history = ShareHistory(2, 5.0)
        history.deliveries = [one for one in events if isinstance(one, Delivery)]
        history.said = [one for one in events if isinstance(one, Said)]
        history.disruptions = [] if disruption is None else [disruption]
        return history.faults([(0, 0)])

    assert faults(first, accepted) == []
    assert "lost" in faults(first)[0]
    assert "held twice" in faults(first, accepted, first._replace(member="b", at=1.5))[0]
    assert faults(first, accepted, first._replace(member="b", at=1.5), disruption=1.2) == []
    assert "came after" in faults(first, accepted, first._replace(member="b", deliveries=2, at=3.0))[0]
    assert any("over the limit" in one for one in faults(first, accepted, first._replace(deliveries=3, at=0.5)))
