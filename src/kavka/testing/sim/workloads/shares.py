"""Share groups: what was acknowledged never comes again, no record has two locks, and none is lost.

Kafka remembers no acquisition, so a leader that has been replaced and does not know it yet may still deliver what it
had; what was said binds the leaders of the same epoch and of later ones, as in `offsets`. A session whose next request
was taken has not been closed before it, and so what it acquired was locked until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import combinations
from typing import Final, NamedTuple

from kavka.client.admin_configs import ConfigResource, ResourceType
from kavka.client.background import Background
from kavka.client.group_link import GroupLink
from kavka.client.producer import Producer
from kavka.client.share_membership import ShareMembership
from kavka.client.share_session import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Outcomes,
    ShareFetchOptions,
    ShareRecord,
    ShareSession,
)
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition, Uuid
from kavka.testing.sim.client import SimClient, Workload

TOPIC: Final = "jobs"
DEAD: Final = "dead-jobs"
"""The dead-letter topic of `few`."""
ISOLATED: Final = "many"
"""The group that reads only what is committed."""
TRANSACTION_MS: Final = 4_000
PARTITIONS: Final = 2
LOCK_SECONDS: Final = 2.0
LIMITS: Final = {"few": 2, "many": 10}
"""By group: how often a record is delivered at most."""
UNSEEN: Final = 5
"""Deliveries whose answers are lost count too: a record that came almost as often as it may was perhaps given up."""
LAST_LOOK_SECONDS: Final = 60.0
OPTIONS: Final = ShareFetchOptions(150, 1, 1 << 20, 8, 8, 0, check_crc=True)
FOR_EVER: Final = float("inf")

Where = tuple[str, int, int]
"""Group, partition and offset."""


class Moment(NamedTuple):
    """A request to a leader: from when to when, and between which leader epochs it was then."""

    node: int
    life: int
    began: float
    ended: float
    least_epoch: int
    most_epoch: int


class Hold:
    """A record that a member was given."""

    __slots__ = ("at", "count", "locked", "member", "proved", "said")

    def __init__(self, at: Moment, member: str, count: int) -> None:
        self.at = at
        self.member = member
        self.count = count
        self.locked = at.began
        """When its lock surely began, or was renewed."""
        self.proved = 0.0
        """When its session was surely there the last time."""
        self.said = FOR_EVER
        """When the member began to say something of it."""

    @property
    def until(self) -> float:
        """Until when it was surely locked."""
        return min(self.proved, self.said, self.locked + LOCK_SECONDS)

    def lasts(self, moment: Moment) -> bool:
        """Whether it was locked, without a change of leader, until a request was answered."""
        epochs = {self.at.least_epoch, self.at.most_epoch, moment.least_epoch, moment.most_epoch}
        same_leader = (self.at.node, self.at.life) == (moment.node, moment.life) and len(epochs) == 1
        return same_leader and moment.ended < self.locked + LOCK_SECONDS


class Done(NamedTuple):
    """A record that was accepted or rejected, and answered so."""

    at: Moment
    how: str
    locked: bool
    """Whether its member surely had it then: of what is before the start offset anything may be said, to no effect."""


class Member:
    """One life of a member: its sessions, and what it holds in them."""

    def __init__(self, client: SimClient, group: str, history: Shares) -> None:
        self._client = client
        self._group = group
        self._history = history
        self._pool = client.pool(timeout_ms=3_000)
        self._id = str(Uuid(client.chance.randbytes(16)))
        self._sessions: dict[int, ShareSession] = {}
        self._held: dict[int, list[Hold]] = defaultdict(list)
        """By node: what was acquired in the session that is open there."""

    async def live(self, end: float, *, calm: bool = False) -> None:
        """Fetch and acknowledge until a time, or until it is done for."""
        client, link = self._client, GroupLink(self._pool, self._group, object())
        background = Background()
        try:
            await self._pool.refresh([TOPIC])
            member = ShareMembership(link, self._pool, (TOPIC,), self._id, None, lambda: None)
            async with background:
                background.start(member.run())
                while client.now < end and member.failure is None and (client.busy or calm):
                    await self._turn(member, calm=calm)
            await self._leave(member)
        except KafkaError:
            await asyncio.sleep(0.1)
        finally:
            for session in self._sessions.values():
                session.close()
            await self._pool.close()

    async def _leave(self, member: ShareMembership) -> None:
        for session in self._sessions.values():
            await session.acknowledge(last=True)
        await member.leave()

    async def _turn(self, member: ShareMembership, *, calm: bool) -> None:
        wanted: dict[int, set[TopicPartition]] = defaultdict(set)
        for tp in member.assigned:
            wanted[self._pool.view.leader(*tp)].add(tp)
        wanted.pop(-1, None)
        for node in sorted({*wanted, *self._sessions}):
            session = self._sessions.get(node)
            if session is None:
                session = ShareSession(self._pool, node, self._group, self._id, OPTIONS)
                self._sessions[node] = session
            session.wanted = frozenset(wanted.get(node, ()))
            await self._take(session, calm=calm)
        if not wanted:
            await asyncio.sleep(0.1)
            await self._pool.refresh([TOPIC])

    async def _take(self, session: ShareSession, *, calm: bool) -> None:
        chance = self._client.chance
        began, before = self._client.now, self._epochs()
        fetched = await session.fetch()
        node = session.node
        if fetched.errors:
            self._held.pop(node, None)  # whether the session is still there is not known
            await self._pool.refresh([TOPIC])
        else:
            self._prove(node, began)
        taken = []
        for record in fetched.records:
            hold = Hold(self._moment(node, record.partition, began, before), self._id, record.delivery_count)
            self._held[node].append(hold)
            self._history.given[self._group, record.partition, record.offset].append(hold)
            taken.append((record, hold))
        if chance.random() < 0.3:
            await asyncio.sleep(chance.uniform(0, 0.4 if calm else 1.5 * LOCK_SECONDS))
        if taken and not calm and chance.random() < 0.2:
            await self._renew(session, taken)
        if taken:
            await self._say(session, taken, calm=calm)

    async def _renew(self, session: ShareSession, taken: list[tuple[ShareRecord, Hold]]) -> None:
        began, chance = self._client.now, self._client.chance
        said: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
        for record, _ in taken:
            said[TopicPartition(TOPIC, record.partition)][record.offset] = RENEW
        outcomes: Outcomes = await session.acknowledge(renews=said)
        if any(error is not None for error in outcomes.values()):
            self._held.pop(session.node, None)
            return
        self._prove(session.node, began)
        for _, hold in taken:
            if self._client.now < hold.locked + LOCK_SECONDS:  # else it may lie before the start offset by now
                hold.locked = began
        self._history.renewed += len(taken)
        await asyncio.sleep(chance.uniform(0, LOCK_SECONDS))

    async def _say(self, session: ShareSession, taken: list[tuple[ShareRecord, Hold]], *, calm: bool) -> None:
        chance = self._client.chance
        began, before = self._client.now, self._epochs()
        said: list[tuple[ShareRecord, Hold, int]] = []
        for record, hold in taken:
            how = ACCEPT if calm else chance.choices([ACCEPT, RELEASE, REJECT, -1], [75, 12, 5, 8])[0]
            if how >= 0:
                hold.said = began
                said.append((record, hold, how))
                if how != RELEASE:
                    self._history.perhaps.add((self._group, record.partition, record.offset))
                session.say(TopicPartition(TOPIC, record.partition), [record.offset], how)
        outcomes: Outcomes = await session.acknowledge()
        if any(error is not None for error in outcomes.values()):
            self._held.pop(session.node, None)
        else:
            self._prove(session.node, began)
        for record, hold, how in said:
            if how == RELEASE:
                continue
            where = self._group, record.partition, record.offset
            tp = TopicPartition(TOPIC, record.partition)
            if outcomes.get(tp, KafkaError()) is None:
                moment = self._moment(session.node, record.partition, began, before)
                word = "accepted" if how == ACCEPT else "rejected"
                self._history.done[where].append(Done(moment, word, hold.lasts(moment)))

    def _prove(self, node: int, began: float) -> None:
        for hold in self._held[node]:
            hold.proved = began

    def _epochs(self) -> list[dict[int, int]]:
        return [self._client.cluster.leader_epochs(TOPIC, index) for index in range(PARTITIONS)]

    def _moment(self, node: int, index: int, began: float, before: list[dict[int, int]]) -> Moment:
        cluster = self._client.cluster
        after = cluster.leader_epochs(TOPIC, index)
        life = cluster.nodes[node - 1].lives
        return Moment(node, life, began, self._client.now, before[index].get(node, -1), after.get(node, 1 << 31))


class Shares(Workload):
    """Two groups with few and with many deliveries; members accept, release, reject, renew, dawdle and vanish."""

    share = 0.5

    def __init__(self) -> None:
        self.given: defaultdict[Where, list[Hold]] = defaultdict(list)
        self.done: defaultdict[Where, list[Done]] = defaultdict(list)
        self.perhaps: set[Where] = set()
        """What members began to accept or reject, whether that was heard or not."""
        self.renewed = 0
        self._sent: set[tuple[int, int]] = set()
        self._aborted: set[tuple[int, int]] = set()
        self._letters: Counter[tuple[int, int]] = Counter()
        self._unfinished: list[str] = []

    async def prepare(self, client: SimClient) -> None:
        """Create the topic, and the settings of the groups."""
        await client.create_topic(TOPIC, partitions=PARTITIONS)
        await client.create_topic(DEAD, partitions=1)
        pool = client.pool()
        for group, limit in LIMITS.items():
            values = {
                "share.auto.offset.reset": "earliest",
                "share.delivery.count.limit": str(limit),
                "share.record.lock.duration.ms": str(int(LOCK_SECONDS * 1000)),
            }
            if group == ISOLATED:
                values["share.isolation.level"] = "read_committed"
            else:
                values["errors.deadletterqueue.topic.name"] = DEAD
            resource = ConfigResource(ResourceType.GROUP, group)
            await client.insist(partial(client.admin(pool).alter_configs, resource, set=values))
        await pool.close()

    async def run(self, client: SimClient) -> None:
        """Write, and have members take it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write(client))
            tasks.create_task(self._transact(client))
            tasks.create_task(self._lead(client))
            for group in LIMITS:
                for _ in range(2):
                    tasks.create_task(self._seat(client, group))

    async def _write(self, client: SimClient) -> None:
        chance, pool, number = client.chance, client.pool(), 0
        async with client.producer(pool) as producer:
            while client.busy:
                number += 1
                try:
                    sent = await producer.send_and_wait(TOPIC, b"job", partition=chance.randrange(PARTITIONS))
                    self._sent.add((sent.partition, sent.offset))
                except KafkaError:
                    pass  # nobody was promised anything
                await asyncio.sleep(chance.uniform(0.02, 0.4))
        await pool.close()

    async def _transact(self, client: SimClient) -> None:
        """Write in transactions, some of which are aborted."""
        chance = client.chance
        while client.busy:
            pool = client.pool()
            options = {"transaction_timeout_ms": TRANSACTION_MS, "max_block_ms": 15_000}
            try:
                async with client.producer(pool, transactional_id="jobs", **options) as producer:
                    while client.busy:
                        await self._write_some(producer, chance)
                        await asyncio.sleep(chance.uniform(0.1, 1.5))
            except KafkaError:
                await asyncio.sleep(chance.uniform(0.05, 0.5))
            await pool.close()

    async def _write_some(self, producer: Producer, chance: random.Random) -> None:
        producer.begin()
        sends = [
            await producer.send(TOPIC, b"job", partition=chance.randrange(PARTITIONS))
            for _ in range(chance.randint(1, 4))
        ]
        places = [(sent.partition, sent.offset) for sent in [await send for send in sends]]
        if chance.random() < 0.4:
            await producer.abort()
            self._aborted.update(places)
        else:
            await producer.commit()
            self._sent.update(places)

    async def _lead(self, client: SimClient) -> None:
        """Have partitions led by those who led them before."""
        pool = client.pool()
        while client.busy:
            await asyncio.sleep(client.chance.uniform(0.5, 3))
            with contextlib.suppress(KafkaError):
                await client.admin(pool).elect_leaders()
        await pool.close()

    async def _seat(self, client: SimClient, group: str) -> None:
        chance = client.chance
        while client.busy:
            end = client.now + chance.uniform(1, 12)
            vanishes = chance.random() < 0.4
            lives = client.spawn(lambda other, end=end: Member(other, group, self).live(end))  # type: ignore[misc]
            while lives.alive and client.busy and not (vanishes and client.now >= end):  # noqa: ASYNC110  (its own loop)
                await asyncio.sleep(0.1)
            if vanishes and lives.alive:
                lives.die()
            await asyncio.sleep(chance.uniform(0, 1))

    async def finish(self, client: SimClient) -> None:
        """A last member of each group takes what is left."""
        pool = client.pool()
        admin = client.admin(pool)
        for group in LIMITS:
            deadline = client.now + LAST_LOOK_SECONDS
            left = "it has no state"
            while left and client.now < deadline:
                await Member(client, group, self).live(client.now + 3, calm=True)
                offsets = await admin.share_group_offsets(group)
                left = ", ".join(f"{tp} {found}" for tp, found in offsets.items() if found.lag != 0)
                if len(offsets) < PARTITIONS and self._sent:
                    left = f"it has the states of {len(offsets)} partitions"
            if left:
                self._unfinished.append(f"{group} is never done: {left}")
            await admin.describe_share_group(group)
        async with client.consumer(pool) as consumer:
            tp = TopicPartition(DEAD, 0)
            end = (await consumer.end_offsets(tp))[tp]
            await consumer.assign(tp, start="start")
            while consumer.position(tp) < end:
                for record in await consumer.read(timeout_ms=500):
                    named = {name: value or b"" for name, value in record.headers}
                    where = int(named["__dlq.errors.partition"]), int(named["__dlq.errors.offset"])
                    self._letters[where] += 1
        await pool.close()

    def faults(self) -> Iterable[str]:
        """What a queue must not do."""
        yield from self._unfinished
        for where, holds in self.given.items():
            limit = LIMITS[where[0]]
            if (most := max(hold.count for hold in holds)) > limit:
                yield f"{where} was delivered for the {most}th time, and {limit} are allowed"
            yield from self._held_twice(where, holds)
            yield from self._after_the_end(where, holds)
        yield from self._lost()
        yield from self._uncommitted()
        yield from self._misburied()

    def _uncommitted(self) -> Iterator[str]:
        for where in sorted(self._aborted):
            if holds := self.given.get((ISOLATED, *where)):
                yield f"{where} was written in a transaction that was aborted, and given to {holds[0].member}"

    def _misburied(self) -> Iterator[str]:
        for place, count in sorted(self._letters.items()):
            if count > 1:
                yield f"{place} has {count} dead letters"
        for (group, partition, offset), ends in self.done.items():
            letter = (partition, offset) in self._letters
            for done in ends if group != ISOLATED else ():
                if done.locked and letter != (done.how == "rejected"):
                    which = "a" if letter else "no"
                    yield f"{(partition, offset)} was {done.how} ({done.at}), and there is {which} dead letter of it"

    @staticmethod
    def _held_twice(where: Where, holds: list[Hold]) -> Iterator[str]:
        for first, second in combinations(holds, 2):
            one, other = first.at, second.at
            epochs = {one.least_epoch, one.most_epoch, other.least_epoch, other.most_epoch}
            same_leader = (one.node, one.life) == (other.node, other.life) and len(epochs) == 1
            if same_leader and max(one.ended, other.ended) < min(first.until, second.until):
                yield f"{where} was locked twice: {one} for {first.member} and {other} for {second.member}"

    def _after_the_end(self, where: Where, holds: list[Hold]) -> Iterator[str]:
        for done in self.done.get(where, ()):
            for hold in holds:
                if hold.at.began > done.at.ended and hold.at.least_epoch >= done.at.most_epoch:
                    yield f"{where} was {done.how} ({done.at}) and given out again ({hold.at})"

    def _lost(self) -> Iterator[str]:
        for group, limit in LIMITS.items():
            for partition, offset in sorted(self._sent):
                where = group, partition, offset
                if where in self.perhaps:
                    continue
                if max((hold.count for hold in self.given.get(where, ())), default=0) < limit - UNSEEN:
                    yield f"LOST: {where} was never accepted, rejected or given up"

    def counts(self) -> dict[str, int]:
        """How many records were dealt with."""
        return {
            "acknowledged jobs": len(self.done),
            "deliveries of jobs": sum(map(len, self.given.values())),
            "renewed locks of jobs": self.renewed,
            "aborted jobs": len(self._aborted),
            "dead jobs": self._letters.total(),
        }
