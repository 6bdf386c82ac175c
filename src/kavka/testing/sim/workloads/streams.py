"""A streams group: no task has two owners that its coordinator both knows, and in the end every task has one.

The same holds of the directory of a process that has a task's state, which an active and a standby task would share.
And only owners commit: what one has committed is not undone by who came before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import count
from typing import ClassVar, Final, NamedTuple

from kavka.client.group_link import GroupLink
from kavka.client.group_offsets import commit_offsets, fetch_offsets
from kavka.model.errors import KafkaError, StaleMemberEpoch, UnknownMemberId
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.testing.sim.client import SimClient, Workload
from kavka.testing.sim.workloads.offsets import PATIENT_MS, Register, epochs, seen

SOURCE: Final = "sensors"
PARTITIONS: Final = 3
GROUP: Final = "averages"
JOINING, LEAVING = 0, -1
BEAT_SECONDS: Final = 0.4
LAST_LOOK_SECONDS: Final = 60.0

READS, COUNTS = "0", "1"
"""The subtopologies: only the second has state."""

Task = tuple[str, int]
"""A subtopology and a partition."""
Place = tuple[str, Task]
"""What only one member can have: an active task, by no process, or its state in the directory of a process."""
EVERY_TASK: Final = [(part, index) for part in (READS, COUNTS) for index in range(PARTITIONS)]
STATEFUL: Final = [(COUNTS, index) for index in range(PARTITIONS)]


class Grant(NamedTuple):
    """A place that a member was given: when it heard so, and by a coordinator of which epoch."""

    member: str
    place: Place
    at: float
    most_epoch: int


class Claim(NamedTuple):
    """A heartbeat that a member was answered well, in which it said what it has and was left with it."""

    member: str
    since: Mapping[Place, float]
    """By place: since when the member has had it."""
    began: float
    least_epoch: int


class StreamsMember:
    """One life of a member, a thread of a process, which does what it is told, sometimes late."""

    def __init__(self, client: SimClient, history: Streams, process_id: str) -> None:
        self._client = client
        self._history = history
        self._process_id = process_id
        self._pool = client.pool(timeout_ms=3_000)
        self._patient_pool = client.pool(timeout_ms=PATIENT_MS)
        self._id = new_id(client)
        self._link = GroupLink(self._pool, GROUP, object())
        self._commits = GroupLink(self._patient_pool, GROUP)
        self._epoch = JOINING
        self.active: dict[Task, float] = {}
        """What it has to do, and since when."""
        self.standby: dict[Task, float] = {}
        """What it stands by for, and since when."""

    async def live(self, end: float) -> None:
        """Send heartbeats and commit until a time, and leave."""
        client = self._client
        try:
            while client.now < end and client.busy:
                await self.beat()
                if client.chance.random() < 0.5:
                    await self.commit()
                await asyncio.sleep(client.chance.uniform(0.5, 1.5) * BEAT_SECONDS)
            await self.leave()
        finally:
            await self.close()

    async def leave(self) -> None:
        """Give back everything."""
        self._drop()
        if self._epoch > JOINING:
            try:
                await self._link.ask(self._request(LEAVING), schema.StreamsGroupHeartbeatResponse, once=True)
            except KafkaError:
                await asyncio.sleep(0)  # it will be missed

    def _drop(self) -> None:
        self.active.clear()
        self.standby.clear()

    async def close(self) -> None:
        """Hang up."""
        await self._pool.close()
        await self._patient_pool.close()

    async def commit(self) -> None:
        """Commit for a partition that this member reads; meanwhile it is silent, however long that takes."""
        client, history = self._client, self._history
        mine = sorted(index for part, index in self.active if part == READS)
        if not mine:
            return
        index = client.chance.choice(mine)
        value, committer = next(history.numbers[index]), (self._id, self._epoch)
        if client.chance.random() < 0.1:
            await asyncio.sleep(client.chance.uniform(1, 10))  # so late that another one may have the partition
        began, before = client.now, epochs(client, GROUP)
        while True:
            try:
                await commit_offsets(self._commits, {TopicPartition(SOURCE, index): value}, lambda: committer)
                break
            except (StaleMemberEpoch, UnknownMemberId):
                return  # the partition may be another one's by now
            except KafkaError:
                await asyncio.sleep(0.05)  # the same number again
        history.offsets[index].written.append(await seen(client, self._commits, began, before, value))

    async def beat(self) -> None:
        """Say what this member has, and take or give back what it is told to."""
        client, began, before = self._client, self._client.now, epochs(self._client, GROUP)
        try:
            answer = await self._link.ask(self._request(self._epoch), schema.StreamsGroupHeartbeatResponse, once=True)
        except KafkaError:
            return
        if answer.error_code:
            self._epoch = JOINING  # fenced, or not known any more
            self._drop()
            return
        node = await self._link.node()
        self._epoch = answer.member_epoch
        active, standby = frozenset(self.active), frozenset(self.standby)
        if answer.active_tasks is not None:
            active, standby = tasks_of(answer.active_tasks), tasks_of(answer.standby_tasks or ())
        kept = self._places(
            {task: since for task, since in self.active.items() if task in active},
            {task: since for task, since in self.standby.items() if task in standby},
        )
        self._history.claims.append(Claim(self._id, kept, began, before.get(node, -1)))
        at, most = client.now, epochs(client, GROUP).get(node, 1 << 31)
        if client.chance.random() < 0.2:
            await asyncio.sleep(client.chance.uniform(0, 1.5))  # giving back takes its time
        self.active = {task: self.active.get(task, at) for task in sorted(active)}
        self.standby = {task: self.standby.get(task, at) for task in sorted(standby)}
        for place in self._places(self.active, self.standby).keys() - kept.keys():
            self._history.grants.append(Grant(self._id, place, at, most))

    def _places(self, active: Mapping[Task, float], standby: Mapping[Task, float]) -> dict[Place, float]:
        owned = {("", task): since for task, since in active.items()}
        return owned | {(self._process_id, task): since for task, since in {**active, **standby}.items()}

    def _request(self, epoch: int) -> schema.StreamsGroupHeartbeatRequest:
        joins = epoch == JOINING
        active, standby = (
            [schema.TaskIds(subtopology_id=part, partitions=[index]) for part, index in sorted(tasks)]
            for tasks in (self.active, self.standby)
        )
        return schema.StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._id,
            member_epoch=epoch,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=5_000 if joins else -1,
            topology=topology() if joins else None,
            process_id=self._process_id if joins else None,
            active_tasks=[] if joins else active,
            standby_tasks=[] if joins else standby,
            warmup_tasks=[],
        )


class Streams(Workload):
    """Processes come, go and vanish, each with a thread or two."""

    share = 0.4
    settings: ClassVar[Mapping[str, str]] = {"group.streams.num.standby.replicas": "1"}

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.claims: list[Claim] = []
        self.offsets = [Register() for _ in range(PARTITIONS)]
        self.numbers = [count(1) for _ in range(PARTITIONS)]
        """What is committed next: of two owners the later one has the higher number."""
        self._unowned = ""

    async def prepare(self, client: SimClient) -> None:
        """Create the topic that is read."""
        await client.create_topic(SOURCE, partitions=PARTITIONS)

    async def run(self, client: SimClient) -> None:
        """Three processes at most, and somebody who looks."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look(client))
            for _ in range(3):
                tasks.create_task(self._seat(client))

    async def _seat(self, client: SimClient) -> None:
        chance = client.chance
        while client.busy:
            end = client.now + chance.uniform(2, 15)
            vanishes = chance.random() < 0.4
            lives = client.spawn(lambda other, end=end: self._process(other, end))  # type: ignore[misc]
            while lives.alive and client.busy and not (vanishes and client.now >= end):  # noqa: ASYNC110  (its own loop)
                await asyncio.sleep(0.1)
            if vanishes and lives.alive:
                lives.die()
            await asyncio.sleep(chance.uniform(0, 1))

    async def _process(self, client: SimClient, end: float) -> None:
        process_id = new_id(client)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(client.chance.choice((1, 1, 2))):
                tasks.create_task(StreamsMember(client, self, process_id).live(end))

    async def _look(self, client: SimClient) -> None:
        pool = client.pool()
        link = GroupLink(pool, GROUP)
        while client.busy:
            await self._read_once(client, link)
            await asyncio.sleep(client.chance.uniform(0.1, 0.8))
        await pool.close()

    async def _read_once(self, client: SimClient, link: GroupLink) -> None:
        began, before = client.now, epochs(client, GROUP)
        try:
            found = await fetch_offsets(link)
        except KafkaError:
            return
        for index, register in enumerate(self.offsets):
            tp = TopicPartition(SOURCE, index)
            value = found[tp].offset if tp in found else 0
            register.read.append(await seen(client, link, began, before, value))

    async def finish(self, client: SimClient) -> None:
        """Two processes have all tasks in the end, each of them one, and stand by for each other's state."""
        members = [StreamsMember(client, self, process_id) for process_id in ("first", "second")]
        deadline = client.now + LAST_LOOK_SECONDS
        active: list[Task] = []
        standby: list[Task] = []
        while (active, standby) != (EVERY_TASK, STATEFUL) and client.now < deadline:
            for member in members:
                await member.beat()
            await asyncio.sleep(BEAT_SECONDS)
            active = sorted(task for member in members for task in member.active)
            standby = sorted(task for member in members for task in member.standby)
        if (active, standby) != (EVERY_TASK, STATEFUL):
            self._unowned = f"two members have only {active}, and stand by for {standby}"
        pool = client.pool()
        await client.admin(pool).describe_group(GROUP)
        await self._read_once(client, GroupLink(pool, GROUP))
        for member in members:
            await member.leave()
            await member.close()
        await pool.close()

    def faults(self) -> Iterable[str]:
        """Tasks with two owners, or none, and commits that are gone."""
        if self._unowned:
            yield self._unowned
        for grant in self.grants:
            for claim in self.claims:
                since = claim.since.get(grant.place)
                if claim.member == grant.member or since is None:
                    continue
                if since <= grant.at < claim.began and claim.least_epoch >= grant.most_epoch:
                    yield f"{grant} though another has it, as it is told afterwards: {claim}"
        for index, register in enumerate(self.offsets):
            yield from register.faults(f"the offset of the streams group in {SOURCE}-{index}")

    def counts(self) -> dict[str, int]:
        """How many tasks were given out, and how often their owners committed."""
        given = [process_id for _, (process_id, _), _, _ in self.grants]
        return {
            "tasks of streams": given.count(""),
            "standby tasks of streams": len(given) - 2 * given.count(""),
            "commits of streams": sum(len(register.written) for register in self.offsets),
        }


def new_id(client: SimClient) -> str:
    """The id of a member, or of a process."""
    return str(Uuid(client.chance.randbytes(16)))


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
        subtopology_id=READS,
        source_topics=[SOURCE],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[keyed],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    second = schema.Subtopology(
        subtopology_id=COUNTS,
        source_topics=[],
        source_topic_regex=[],
        state_changelog_topics=[info(counted, "compact")],
        repartition_sink_topics=[],
        repartition_source_topics=[info(keyed, "delete")],
        copartition_groups=[],
    )
    return schema.Topology(epoch=0, subtopologies=[first, second])
