"""Fetches of share groups at the leader: whatever happens while they wait, they are answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from played import KEY, Persister, PlayedPartition, turns

from kavka.metadata.image.metadata import EMPTY
from kavka.model.settings import broker_values
from kavka.records.builder import BatchBuilder
from kavka.replica.partition import FetchRead
from kavka.runtime.dead_letters import DeadLetters
from kavka.runtime.share_fetching import ShareFetchLimits
from kavka.runtime.share_leader import LeaderHost, ShareLeader
from kavka.runtime.timers import Timers
from kavka.share.session import SessionKey

LIMITS = ShareFetchLimits("m", 1, 1 << 20, 100, 100, 0, False)
WHERE = (KEY.topic_id, KEY.partition)
OTHER = (KEY.topic_id, KEY.partition + 1)
MEMBER = SessionKey("g", "m")


def fetch(leader, limits=LIMITS, wait_ms=60_000, named=(WHERE,), forgotten=()):
    """The next fetch of the one member that there is."""
    session = leader.sessions.get(MEMBER)
    epoch = 0 if session is None else session.epoch
    session = leader.sessions.fetch(MEMBER, epoch, named, forgotten, False, 1, 10)
    return leader.fetch(1, leader.interest(session, named, forgotten, epoch), (), limits, wait_ms)


class Led(PlayedPartition):
    """A partition that is led, with one record more whenever it is told so."""

    behind_epoch_start = False
    fault: Exception | None = None
    reads = 0

    def require_leader(self):
        pass

    def fetch(self, entry, *, committed, max_bytes, min_one):
        self.reads += 1
        records = self.read_own(entry.fetch_offset, max_bytes) if entry.fetch_offset < self.high_watermark else b""
        return FetchRead(records, self.high_watermark, self.high_watermark, 0, None, None)

    @property
    def last_stable_offset(self):
        if self.fault is not None:
            raise self.fault
        return self.high_watermark

    def add(self):
        builder = BatchBuilder()
        builder.append(None, b"job")
        self.append_own(builder.build(), 0)


class Replicas:
    def __init__(self, partitions):
        self.image = EMPTY
        self.partitions = partitions

    def find(self, topic_id, index):
        return self.partitions[index]


def scenario(play, clock, work):
    async def run():
        partitions = [Led(0), Led(1)]
        loop = asyncio.get_running_loop()
        replicas: Any = Replicas(partitions)
        host = LeaderHost(loop, clock, Timers(loop), replicas, broker_values({}))
        nobody: Any = None  # nothing is given up here
        leader = ShareLeader(host, Persister(), DeadLetters(nobody, clock, nobody, nobody))
        running = asyncio.ensure_future(leader.run())
        await turns(5)
        try:
            await work(leader, *partitions)
        finally:
            running.cancel()
            await asyncio.wait([running])

    play(run())


def test_a_fetch_that_waits_gets_what_is_appended(play, clock):
    async def work(leader, partition, _):
        answer = asyncio.ensure_future(fetch(leader))
        await turns(10)
        assert not answer.done()
        partition.add()
        assert (await answer)[WHERE].acquired == [(0, 0, 1)]

    scenario(play, clock, work)


def test_a_fetch_that_fails_while_it_waits_is_answered_with_that(play, clock):
    async def work(leader, partition, _):
        committed = LIMITS._replace(committed=True)
        answer = asyncio.ensure_future(fetch(leader, committed))
        await turns(10)
        partition.fault = ArithmeticError("a fault of ours")
        partition.add()
        with pytest.raises(ArithmeticError):
            await answer
        partition.fault = None
        assert (await fetch(leader, committed))[WHERE].acquired == [(0, 0, 1)]

    scenario(play, clock, work)


def test_a_partition_that_had_nothing_is_not_looked_at_until_it_has_news(play, clock):
    async def work(leader, partition, other):
        assert sorted(await fetch(leader, wait_ms=100, named=[WHERE, OTHER])) == [WHERE, OTHER]
        before = partition.reads, other.reads
        for _ in range(3):
            assert await fetch(leader, wait_ms=100) == {}
        other.add()
        assert list(await fetch(leader)) == [OTHER]
        assert (partition.reads, other.reads) == (before[0], before[1] + 1)

    scenario(play, clock, work)


def test_what_is_there_counts_with_what_comes(play, clock):
    async def work(leader, partition, other):
        await fetch(leader, wait_ms=100, named=[WHERE, OTHER])
        partition.add()
        enough = LIMITS._replace(min_bytes=len(partition.batches[0]) + 1)
        answer = asyncio.ensure_future(fetch(leader, enough))
        await turns(10)
        assert not answer.done()
        other.add()
        assert sorted(await answer) == [WHERE, OTHER]

    scenario(play, clock, work)


def test_when_the_metadata_has_changed_all_partitions_are_looked_at(play, clock):
    async def work(leader, partition, _):
        await fetch(leader, wait_ms=100)
        before = partition.reads
        leader.start(EMPTY)
        await fetch(leader, wait_ms=100)
        assert partition.reads > before

    scenario(play, clock, work)


def test_nobody_is_told_any_more_of_what_was_forgotten_or_left(play, clock):
    async def work(leader, partition, other):
        await fetch(leader, wait_ms=100, named=[WHERE, OTHER])
        assert (len(partition.watchers), len(other.watchers)) == (1, 1)
        assert await fetch(leader, wait_ms=100, named=(), forgotten=[OTHER]) == {}
        assert (len(partition.watchers), len(other.watchers)) == (1, 0)
        leader.disconnected(1)
        assert (len(partition.watchers), len(other.watchers)) == (0, 0)

    scenario(play, clock, work)
