"""A streams group: no task has two owners that its coordinator both knows, and in the end every task has one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from kavka.client.group_link import GroupLink
from kavka.metadata.names import CONSUMER_OFFSETS
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.runtime.shards import partition_of
from kavka.testing.sim.client import SimClient, Workload

SOURCE: Final = "sensors"
PARTITIONS: Final = 3
GROUP: Final = "averages"
JOINING, LEAVING = 0, -1
BEAT_SECONDS: Final = 0.4
LAST_LOOK_SECONDS: Final = 60.0

Task = tuple[str, int]
"""A subtopology and a partition."""
EVERY_TASK: Final = frozenset((part, index) for part in ("0", "1") for index in range(PARTITIONS))


class Grant(NamedTuple):
    """A task that a member was given: when it heard so, and by a coordinator of which epoch."""

    member: str
    task: Task
    at: float
    most_epoch: int


class Claim(NamedTuple):
    """A heartbeat that a member was answered well, in which it said that it has tasks and was left with them."""

    member: str
    tasks: frozenset[Task]
    since: dict[Task, float]
    """By task: since when the member has had it."""
    began: float
    least_epoch: int


class StreamsMember:
    """One life of a member, which does what it is told, sometimes late."""

    def __init__(self, client: SimClient, history: Streams) -> None:
        self._client = client
        self._history = history
        self._pool = client.pool(timeout_ms=3_000)
        self._id = str(Uuid(client.chance.randbytes(16)))
        self._link = GroupLink(self._pool, GROUP, object())
        self._epoch = JOINING
        self.tasks: dict[Task, float] = {}
        """What it has, and since when."""

    async def live(self, end: float) -> None:
        """Send heartbeats until a time, and leave."""
        client = self._client
        try:
            while client.now < end and client.busy:
                await self.beat()
                await asyncio.sleep(client.chance.uniform(0.5, 1.5) * BEAT_SECONDS)
            await self.leave()
        finally:
            await self._pool.close()

    async def leave(self) -> None:
        """Give back everything."""
        self.tasks.clear()
        if self._epoch > JOINING:
            try:
                await self._link.ask(self._request(LEAVING), schema.StreamsGroupHeartbeatResponse, once=True)
            except KafkaError:
                await asyncio.sleep(0)  # it will be missed

    async def close(self) -> None:
        """Hang up."""
        await self._pool.close()

    async def beat(self) -> None:
        """Say what this member has, and take or give back what it is told to."""
        client, said = self._client, dict(self.tasks)
        began, before = client.now, self._epochs()
        try:
            answer = await self._link.ask(self._request(self._epoch), schema.StreamsGroupHeartbeatResponse, once=True)
        except KafkaError:
            return
        if answer.error_code:
            self._epoch = JOINING  # fenced, or not known any more
            self.tasks.clear()
            return
        node = await self._link.node()
        self._epoch = answer.member_epoch
        wanted = tasks_of(answer.active_tasks) if answer.active_tasks is not None else frozenset(said)
        kept = frozenset(said) & wanted
        self._history.claims.append(Claim(self._id, kept, said, began, before.get(node, -1)))
        at, most = client.now, self._epochs().get(node, 1 << 31)
        if client.chance.random() < 0.2:
            await asyncio.sleep(client.chance.uniform(0, 1.5))  # giving back takes its time
        for task in sorted(wanted - self.tasks.keys()):
            self.tasks[task] = at
            self._history.grants.append(Grant(self._id, task, at, most))
        for task in self.tasks.keys() - wanted:
            del self.tasks[task]

    def _epochs(self) -> dict[int, int]:
        cluster = self._client.cluster
        return cluster.leader_epochs(CONSUMER_OFFSETS, partition_of(GROUP, cluster.coordinator_partitions))

    def _request(self, epoch: int) -> schema.StreamsGroupHeartbeatRequest:
        joins = epoch == JOINING
        active = [schema.TaskIds(subtopology_id=part, partitions=[index]) for part, index in sorted(self.tasks)]
        return schema.StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._id,
            member_epoch=epoch,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=5_000 if joins else -1,
            topology=topology() if joins else None,
            process_id=self._id if joins else None,
            active_tasks=[] if joins else active,
            standby_tasks=[],
            warmup_tasks=[],
        )


class Streams(Workload):
    """Members come, go and vanish."""

    share = 0.4

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.claims: list[Claim] = []
        self._unowned = ""

    async def prepare(self, client: SimClient) -> None:
        """Create the topic that is read."""
        await client.create_topic(SOURCE, partitions=PARTITIONS)

    async def run(self, client: SimClient) -> None:
        """Three members at most."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(self._seat(client))

    async def _seat(self, client: SimClient) -> None:
        chance = client.chance
        while client.busy:
            end = client.now + chance.uniform(2, 15)
            vanishes = chance.random() < 0.4
            lives = client.spawn(lambda other, end=end: StreamsMember(other, self).live(end))  # type: ignore[misc]
            while lives.alive and client.busy and not (vanishes and client.now >= end):  # noqa: ASYNC110  (its own loop)
                await asyncio.sleep(0.1)
            if vanishes and lives.alive:
                lives.die()
            await asyncio.sleep(chance.uniform(0, 1))

    async def finish(self, client: SimClient) -> None:
        """Two members have all tasks in the end, each of them one."""
        members = [StreamsMember(client, self) for _ in range(2)]
        deadline = client.now + LAST_LOOK_SECONDS
        owned: list[Task] = []
        while sorted(owned) != sorted(EVERY_TASK) and client.now < deadline:
            for member in members:
                await member.beat()
            await asyncio.sleep(BEAT_SECONDS)
            owned = [task for member in members for task in member.tasks]
        if sorted(owned) != sorted(EVERY_TASK):
            self._unowned = f"two members have only {sorted(owned)}"
        pool = client.pool()
        await client.admin(pool).describe_group(GROUP)
        for member in members:
            await member.leave()
            await member.close()
        await pool.close()

    def faults(self) -> Iterable[str]:
        """Tasks with two owners, or none."""
        if self._unowned:
            yield self._unowned
        for grant in self.grants:
            for claim in self.claims:
                since = claim.since.get(grant.task)
                if claim.member == grant.member or grant.task not in claim.tasks or since is None:
                    continue
                if since <= grant.at < claim.began and claim.least_epoch >= grant.most_epoch:
                    yield f"{grant} though another has it, as it is told afterwards: {claim}"

    def counts(self) -> dict[str, int]:
        """How many tasks were given out."""
        return {"tasks of streams": len(self.grants)}


def tasks_of(rows: Iterable[schema.TaskIds]) -> frozenset[Task]:
    """Tasks as an answer has them."""
    return frozenset((row.subtopology_id, index) for row in rows for index in row.partitions)


def topology() -> schema.Topology:
    """What is read is sent on by key, and counted in a changelog."""

    def info(name: str, policy: str) -> schema.TopicInfo:
        pair = schema.KeyValue(key="cleanup.policy", value=policy)
        return schema.TopicInfo(name=name, partitions=0, replication_factor=3, topic_configs=[pair])

    keyed, counted = f"{GROUP}-keyed-repartition", f"{GROUP}-counted-changelog"
    first = schema.Subtopology(
        subtopology_id="0",
        source_topics=[SOURCE],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[keyed],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    second = schema.Subtopology(
        subtopology_id="1",
        source_topics=[],
        source_topic_regex=[],
        state_changelog_topics=[info(counted, "compact")],
        repartition_sink_topics=[],
        repartition_source_topics=[info(keyed, "delete")],
        copartition_groups=[],
    )
    return schema.Topology(epoch=0, subtopologies=[first, second])
