"""Requests that wait for other replicas: answered when all are there, when it cannot be, or when the time is up."""

from __future__ import annotations

import asyncio

import pytest

from kavka.model.errors import NotEnoughReplicasAfterAppend, NotLeaderOrFollower, RequestTimedOut
from kavka.model.types import TopicPartition
from kavka.replica.committing import Awaited, ReplicasWait, committed, deleted
from kavka.replica.fetching import Watcher
from kavka.replica.offset_wait import OffsetWait, high_watermark, low_watermark
from kavka.replica.waiting import Purgatory


class Played:
    """A partition whose progress the test decides."""

    def __init__(self):
        self.topic_partition = TopicPartition("orders", 0)
        self.leads = True
        self.led_since = 0
        self.high_watermark = 0
        self.low_watermark = 0
        self.enough_in_sync = True
        self.watchers: dict[Watcher, None] = {}

    def when_committed(self, offset, done, led_since=None):
        return OffsetWait(self, high_watermark, offset, led_since, done)

    def when_deleted(self, offset, done, led_since=None):
        return OffsetWait(self, low_watermark, offset, led_since, done)

    def change(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)
        watchers, self.watchers = self.watchers, {}
        for watcher in watchers:
            watcher.news()


@pytest.fixture
def played():
    return Played()


def wait(test, *partitions, when=committed, timeout_ms=10_000):
    """Wait for offset 5 of each partition while the test changes them; the errors at the end."""

    async def go():
        waiting = Purgatory(asyncio.get_running_loop())
        done = asyncio.get_running_loop().create_future()
        awaited = {number: Awaited(one, 5, 0) for number, one in enumerate(partitions)}
        ReplicasWait(awaited, when, done.set_result).park(timeout_ms, waiting)
        await test(done)
        found = {key: type(error) for key, error in (await asyncio.wait_for(done, 5)).items()}
        assert waiting.parked == 0
        assert not any(one.watchers for one in partitions)
        return found

    return asyncio.run(go())


def test_all_partitions_have_to_be_there():
    first, second = Played(), Played()

    async def test(done):
        first.change(high_watermark=5)
        await asyncio.sleep(0)
        first.change(high_watermark=6)
        second.change(high_watermark=4)
        await asyncio.sleep(0)
        assert not done.done()
        second.change(high_watermark=5)

    assert wait(test, first, second) == {}


def test_what_is_there_already_is_not_waited_for(played):
    async def test(done):
        assert done.done()

    played.high_watermark = 5
    assert wait(test, played) == {}


def test_a_partition_that_is_led_elsewhere_or_anew_fails_at_once(played):
    async def test(done):
        played.change(leads=False)

    assert wait(test, played) == {0: NotLeaderOrFollower}
    anew = Played()

    async def again(done):
        anew.change(led_since=2, high_watermark=9)

    assert wait(again, anew) == {0: NotLeaderOrFollower}


def test_a_commit_on_too_few_replicas_says_so(played):
    async def test(done):
        played.change(high_watermark=5, enough_in_sync=False)

    assert wait(test, played) == {0: NotEnoughReplicasAfterAppend}


def test_when_the_time_is_up_what_is_missing_timed_out(played):
    other = Played()
    other.high_watermark = 5

    async def test(done):
        pass

    assert wait(test, played, other, timeout_ms=1) == {0: RequestTimedOut}
    assert wait(test, Played(), timeout_ms=-1) == {0: RequestTimedOut}


def test_a_deletion_waits_for_the_low_watermark_and_needs_no_in_sync_replicas(played):
    async def test(done):
        played.change(high_watermark=99, enough_in_sync=False)
        await asyncio.sleep(0)
        assert not done.done()
        played.change(low_watermark=5)

    assert wait(test, played, when=deleted) == {}
