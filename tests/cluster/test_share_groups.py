"""Three nodes that are killed and held still, and members of a share group that do what members do."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.share_history import ACCEPT, RELEASE, Delivery, LeaderChange, Said, ShareHistory, Where
from cluster.share_members import Members, watched
from kavka.cli.dump import dump
from kavka.client import Admin, ConfigResource, Consumer, Producer, ResourceType, TopicPartition
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.testing import Cluster
from scale import rounds

PARTITIONS = 8
MEMBERS = rounds(40, 10)
SECONDS = int(os.environ.get("KAVKA_SECONDS", rounds(1200, 5)))
"""So long nodes are disrupted, one after the other."""
JUDGED_EVERY = rounds(10, 1)
RECORDS = rounds(200, 150)
"""Between two disruptions."""
LONGEST_PAUSE = rounds(11, 3)
LOCK_MS = 2_000
LIMIT = 5
NO_PROGRESS_SECONDS = 40
"""A member that was cut off is a member for so long, and keeps its share of the partitions."""
CONFIG = {
    "min.insync.replicas": "2",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.session.timeout.ms": "5000",
    "share.coordinator.state.topic.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, timeout=60, config=CONFIG) as cluster:
        yield cluster


async def disrupt(cluster: Cluster, rng: random.Random) -> None:
    """Kill a node, or hold it still, and let it come back."""
    node = rng.choice(cluster.nodes)
    if rng.random() < 0.5:
        await asyncio.to_thread(cluster.kill, node)
        await asyncio.sleep(rng.uniform(0.5, 3))
        await asyncio.to_thread(cluster.start, node)
    else:
        cluster.pause(node)
        await asyncio.sleep(rng.uniform(1, LONGEST_PAUSE))
        cluster.resume(node)


async def prepared(admin: Admin) -> Uuid:
    await admin.create_topic("jobs", partitions=PARTITIONS, replication_factor=3)
    await admin.create_topic("dead", partitions=3, replication_factor=3)
    group = ConfigResource(ResourceType.GROUP, "g")
    settings = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dead"}
    await admin.alter_configs(group, set=settings)
    return (await admin.describe_topics(["jobs"]))["jobs"].id


async def produce(bootstrap: str, count: int) -> list[Where]:
    async with Producer(bootstrap) as producer:
        sent = [
            await producer.send("jobs", str(number).encode(), partition=number % PARTITIONS) for number in range(count)
        ]
        await producer.flush()
        return [(found.partition, found.offset) for found in [await one for one in sent]]


def leaders_of(cluster: Cluster, topic: Uuid) -> dict[int, list[LeaderChange]]:
    """When the partitions of a topic had which leader, by the metadata log that goes farthest."""
    logs = [sorted(path.glob("*.log")) for path in Path(cluster.data_dir).rglob("__cluster_metadata-0")]
    longest = max(logs, key=lambda files: sum(file.stat().st_size for file in files))
    found: defaultdict[int, list[LeaderChange]] = defaultdict(list)
    for row in (row for file in longest for row in dump(file, deep=True)):
        if row.get("type") in ("PartitionRecord", "PartitionChangeRecord"):
            record = row["record"]
            if record["topic_id"] == str(topic) and record.get("leader", -2) != -2:
                found[record["partition_id"]].append(LeaderChange(row["timestamp"] / 1000, record["leader"]))
    return found


async def settled(admin: Admin, history: ShareHistory, produced: list[Where]) -> str:
    """Return when the group is done with all records, twice in a row, or nothing has happened for long; what is left.

    A node that was held still may say so for a moment, because it does not know what it missed.
    """
    before: object = None
    since, times, lags = time.monotonic(), 0, {}
    while times < 2 and time.monotonic() < since + NO_PROGRESS_SECONDS:
        try:
            lags = {tp.partition: one.lag for tp, one in (await admin.share_group_offsets("g")).items()}
        except KafkaError:
            continue
        missing = set(produced) - history.delivered
        is_done = len(lags) == PARTITIONS and not any(lags.values()) and not missing
        times = times + 1 if is_done else 0
        if (lags, missing) != before:
            before, since = (lags, missing), time.monotonic()
        await asyncio.sleep(0.5)
    return "" if times == 2 else f"lag by partition: {lags}"


async def dead_letters(bootstrap: str) -> Counter[Where]:
    """The records that have dead letters, and how many each."""
    async with Consumer(bootstrap, isolation="read_committed") as consumer:
        places = [TopicPartition("dead", index) for index in range(3)]
        ends = await consumer.end_offsets(*places)
        await consumer.assign(*places, start="start")
        found: Counter[Where] = Counter()
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for record in await consumer.read():
                named = {
                    name: int(text or b"") for name, text in record.headers if name.endswith(("partition", "offset"))
                }
                found[named["__dlq.errors.partition"], named["__dlq.errors.offset"]] += 1
        return found


@pytest.mark.timeout(SECONDS + 600)
def test_every_record_is_done_with_once_whatever_nodes_and_members_do(
    cluster: Cluster, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = ShareHistory(LIMIT, LOCK_MS / 1000)
    monkeypatch.setattr("kavka.client.share_consumer.ShareSession", watched(history))

    async def disturbed(topic: Uuid) -> list[Where]:
        produced: list[Where] = []
        until = time.monotonic() + SECONDS
        for number in itertools.count(1):
            produced += await produce(cluster.bootstrap, RECORDS)
            await disrupt(cluster, rng)
            if number % JUDGED_EVERY == 0:
                assert history.faults(leaders_of(cluster, topic)) == []
            if time.monotonic() > until:
                break
        return produced

    async def scenario() -> None:
        async with Admin(cluster.bootstrap) as admin:
            topic = await prepared(admin)
            members = Members(cluster.bootstrap, rng, LOCK_MS / 1000)
            tasks = [asyncio.ensure_future(members.work()) for _ in range(MEMBERS)]
            try:
                produced = await disturbed(topic)
                members.calm = True
                left = await settled(admin, history, produced)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            leaders = leaders_of(cluster, topic)
            assert len(leaders) == PARTITIONS
            assert history.faults(leaders) == []
            assert (left, history.lost(produced)) == ("", [])
            dead = await dead_letters(cluster.bootstrap)
            assert [where for where, count in dead.items() if count > 1] == []
            assert history.rejected - set(dead) == set()
            assert set(dead) & history.accepted == set()

    asyncio.run(scenario())


FIRST = Delivery((0, 0), "a", 1, 1, 1.0, 1.1)
AGAIN = Delivery((0, 0), "b", 1, 2, 1.2, 1.3)
ACCEPTED = Said((0, 0), "a", ACCEPT, 2.0, 2.1, True)


@pytest.mark.parametrize(
    ("events", "changes", "fault"),
    [
        ([FIRST, ACCEPTED], [], None),
        ([FIRST, ACCEPTED, AGAIN], [], "two locks"),
        ([FIRST, AGAIN._replace(node=2, delivery_count=1)], [LeaderChange(1.15, 2)], None),
        ([FIRST, ACCEPTED, AGAIN._replace(node=2, delivery_count=1)], [LeaderChange(1.15, 2)], "two locks"),
        ([FIRST, ACCEPTED._replace(holds=False), AGAIN._replace(node=2)], [LeaderChange(1.15, 2)], None),
        ([FIRST, ACCEPTED, AGAIN._replace(node=2)], [LeaderChange(1.15, 2), LeaderChange(1.9, 1)], None),
        ([FIRST, Said((0, 0), "a", RELEASE, 1.15, 1.16, True), AGAIN], [], None),
        ([FIRST, AGAIN._replace(sent=6.2, came=6.3)], [], None),
        ([FIRST, AGAIN._replace(sent=6.2, came=6.3, delivery_count=1)], [], "counted wrong"),
        ([FIRST, AGAIN._replace(sent=6.2, came=6.3, delivery_count=1)], [LeaderChange(5.0, 1)], None),
        ([FIRST._replace(delivery_count=3)], [], "over the limit"),
        ([FIRST, ACCEPTED, AGAIN._replace(sent=2.2, came=2.3)], [], "came after"),
        ([FIRST, ACCEPTED, AGAIN._replace(sent=2.2, came=2.3, node=2)], [LeaderChange(1.5, 2)], "came after"),
        ([FIRST, ACCEPTED, AGAIN._replace(sent=2.2, came=2.3, node=2)], [LeaderChange(1.5, 3)], None),
        ([FIRST, ACCEPTED, AGAIN, ACCEPTED._replace(member="b")], [], "done with twice"),
        (
            [
                FIRST,
                ACCEPTED._replace(sent=6.4, answered=6.5),
                AGAIN._replace(sent=6.2, came=6.3),
                ACCEPTED._replace(member="b", sent=6.4, answered=6.5),
            ],
            [],
            None,
        ),
        (
            [FIRST, FIRST._replace(sent=6.0, came=6.1, delivery_count=2), FIRST._replace(sent=11.0, came=12.0)],
            [],
            "3 times",
        ),
        (
            [
                FIRST._replace(node=2),
                FIRST._replace(sent=6.0, came=6.1),
                FIRST._replace(sent=11.0, came=12.0, delivery_count=2),
            ],
            [],
            None,
        ),
    ],
)
def test_the_history_tells_what_cannot_be(
    events: list[Delivery | Said], changes: list[LeaderChange], fault: str | None
) -> None:
    history = ShareHistory(2, 5.0)
    history.deliveries = [one for one in events if isinstance(one, Delivery)]
    history.said = [one for one in events if isinstance(one, Said)]
    found = history.faults({0: [LeaderChange(0.0, 1), *changes]})
    assert any(fault in one for one in found) if fault is not None else found == []


def test_the_history_tells_what_is_lost() -> None:
    history = ShareHistory(2, 5.0)
    history.deliveries = [FIRST]
    assert "was lost" in history.lost([(0, 0)])[0]
    history.said = [ACCEPTED]
    assert history.lost([(0, 0)]) == []
