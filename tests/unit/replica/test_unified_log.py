"""A log whose older part is elsewhere: what is waited for, what followers are told, and what ends the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from followed import Replicated
from held import Held

from kavka.model.errors import KafkaError, NotLeaderOrFollower, OffsetMovedToTieredStorage, OffsetOutOfRange
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.replica.fetching import FetchEntry, FetchSessions
from kavka.replica.partition import Partition
from kavka.replica.reading import FetchAttempt, FetchedTopics, FetchLimits
from kavka.replica.tier import RemoteOffsetLookup, RemoteRead, RemoteStateRead, TieredRecords
from kavka.replica.waiting import Purgatory
from kavka.storage.segment import TimestampOffset

LOCAL, END = 3, 5
LONG_MS = 60_000


class Tier:
    """A tier whose answers the test gives."""

    end_offset: int | None = LOCAL

    def __init__(self) -> None:
        self.reads: list[tuple[int, RemoteRead]] = []
        self.searches: list[RemoteOffsetLookup] = []

    def read(self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool, committed: bool) -> RemoteRead:
        future: RemoteRead = asyncio.get_running_loop().create_future()
        self.reads.append((offset, future))
        return future

    def search_timestamp(self, timestamp: int, from_offset: int) -> RemoteOffsetLookup:
        future: RemoteOffsetLookup = asyncio.get_running_loop().create_future()
        self.searches.append(future)
        return future

    def state_after(self, offset: int, leader_epoch: int) -> RemoteStateRead:
        return asyncio.get_running_loop().create_future()

    def give(self, records: bytes = b"tiered", **more: Any) -> None:
        """Answer the last read."""
        self.reads[-1][1].set_result(TieredRecords(records, LOCAL, **more))


def part(partition: Partition) -> Tier:
    """Take what is before LOCAL off the disk, a tier having it."""
    tier = partition.tier = Tier()
    partition.log.config = partition.rules.log
    partition.delete_old_segments(0)
    assert (partition.log_start_offset, partition.local_log_start_offset) == (0, LOCAL)
    return tier


SMALL = {"internal_segment_bytes": 70, "local_retention_bytes": 0, "retention_ms": -1}


@pytest.fixture
def partition(held: Held) -> Partition:
    found = held.topic("orders", 2, **SMALL)
    for _ in range(END):
        held.produce(found)
    return found


class Consumer:
    """A client with a fetch session."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.sessions = FetchSessions(10, 120_000, iter(range(1, 100)).__next__)
        self.session_id = self.epoch = 0
        self.waiting = Purgatory(asyncio.get_running_loop())

    def fetch(
        self, *entries: FetchEntry, committed: bool = False, wait_ms: int = LONG_MS, min_bytes: int = 1
    ) -> asyncio.Future[FetchedTopics | None]:
        """Start a fetch; its answer comes through a future."""
        scope, incremental = self.sessions.begin(self.session_id, self.epoch, entries, (), False, 0)
        self.session_id, self.epoch = scope.id, scope.epoch
        answer: asyncio.Future[FetchedTopics | None] = asyncio.get_running_loop().create_future()
        limits = FetchLimits(min_bytes, 1 << 20, committed)
        attempt = FetchAttempt(self.held.replicas, scope, limits, incremental=incremental)
        if attempt.look():
            answer.set_result(attempt.result())
        else:
            attempt.park(min(wait_ms, attempt.wait_ms(wait_ms)), self.waiting, answer.set_result, lambda: False)
        return answer


def entry(offset: int, index: int = 0) -> FetchEntry:
    return FetchEntry("orders", index, -1, offset, -1, -1, 1 << 20)


def rows(topics: FetchedTopics | None) -> list[tuple[int, int, int]]:
    """Partition, error code and bytes of each row."""
    assert topics is not None
    return [(row[0], row[1], len(row[7] or b"")) for _, found in topics for row in found]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        await asyncio.wait_for(test(), 10)

    asyncio.run(go())


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_fetch_waits_for_the_tier_whatever_is_here_and_then_answers_with_both(
    held: Held, partition: Partition
) -> None:
    held.produce(held.replicas.find("orders", 1))

    async def test() -> None:
        tier = part(partition)
        answer = Consumer(held).fetch(entry(0), entry(0, 1))
        held.produce(held.replicas.find("orders", 1))
        await turn()
        assert not answer.done()
        tier.give()
        one = held.replicas.find("orders", 1).size_bytes // 2  # a segment is read at a time
        assert rows(await answer) == [(0, 0, 6), (1, 0, one)]
        assert [offset for offset, _ in tier.reads] == [0]

    run(test)


def test_an_error_elsewhere_in_the_request_does_not_end_the_wait(held: Held, partition: Partition) -> None:
    async def test() -> None:
        tier = part(partition)
        answer = Consumer(held).fetch(entry(0), entry(99, 1))
        await turn()
        assert not answer.done()
        tier.give()
        assert rows(await answer) == [(0, 0, 6), (1, OffsetOutOfRange.code, 0)]

    run(test)


def test_what_did_not_come_in_time_is_asked_for_again_by_the_session(held: Held, partition: Partition) -> None:
    async def test() -> None:
        tier = part(partition)
        consumer = Consumer(held)
        assert rows(await consumer.fetch(entry(1), wait_ms=1)) == [(0, 0, 0)]
        answer = consumer.fetch()
        assert [offset for offset, _ in tier.reads] == [1, 1]
        tier.give()
        assert rows(await answer) == [(0, 0, 6)]

    run(test)


def test_a_read_that_is_done_at_once_is_answered_at_once(held: Held, partition: Partition) -> None:
    async def test() -> None:
        done: RemoteRead = asyncio.get_running_loop().create_future()
        done.set_result(TieredRecords(b"tiered", LOCAL))
        part(partition).read = lambda *_, **__: done  # type: ignore[method-assign]
        assert rows(await Consumer(held).fetch(entry(0))) == [(0, 0, 6)]

    run(test)


def test_a_request_whose_session_goes_on_while_the_tier_reads_is_told_so(held: Held, partition: Partition) -> None:
    async def test() -> None:
        tier = part(partition)
        consumer = Consumer(held)
        first = consumer.fetch(entry(0))
        second = consumer.fetch()
        assert await first is None
        tier.give()
        assert rows(await second) == [(0, 0, 6)]

    run(test)


@pytest.mark.parametrize("gave_up", [False, True])
def test_a_read_that_fails_is_that_partitions_error(held: Held, partition: Partition, gave_up: bool) -> None:
    async def test() -> None:
        tier = part(partition)
        answer = Consumer(held).fetch(entry(0))
        (_, read) = tier.reads[-1]
        if gave_up:
            read.cancel()
        else:
            read.set_exception(OffsetOutOfRange("not here"))
        assert rows(await answer) == [(0, -1 if gave_up else OffsetOutOfRange.code, 0)]

    run(test)


def test_records_deleted_while_the_tier_reads_are_out_of_range(held: Held, partition: Partition) -> None:
    async def test() -> None:
        tier = part(partition)
        answer = Consumer(held).fetch(entry(1))
        partition.delete_records(2)
        assert (partition.log_start_offset, partition.local_log_start_offset) == (2, LOCAL)
        tier.give()
        assert rows(await answer) == [(0, OffsetOutOfRange.code, 0)]

    run(test)


def test_what_was_aborted_is_told_by_the_tier_and_by_markers_that_are_here(held: Held) -> None:
    partition = held.topic("orders", **SMALL)
    builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    builder.append(None, b"", held.clock.now_ms())
    partition.append(memoryview(builder.build()), -1, held.clock.now_ms(), 13)
    for _ in range(END - 2):
        held.produce(partition)
    marker = txn_marker_batch(commit=False, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=1)
    partition.log.config = held.replicas.rules_of("__none").log
    partition.append_own(marker, held.clock.now_ms())

    async def test() -> None:
        tier = part(partition)
        answer = Consumer(held).fetch(entry(0), committed=True)
        tier.give(aborted=[(4, 1)])
        topics = await answer
        assert topics is not None
        assert topics[0][1][0][5] == [(4, 1), (5, 0)]

    run(test)


def test_a_log_that_loses_its_tier_starts_where_the_disk_does(held: Held, partition: Partition) -> None:
    part(partition)
    partition.give_rules(partition.rules, None)
    assert (partition.log_start_offset, partition.local_log_start_offset) == (LOCAL, LOCAL)


def test_a_search_goes_on_here_if_the_tier_has_none(held: Held, partition: Partition) -> None:
    async def test() -> None:
        tier = part(partition)
        search = partition.search_timestamp(0)
        assert next(search) is tier.searches[0]
        tier.searches[0].set_result(None)
        found: Any = None
        while found is None:
            try:
                assert next(search) is None
            except StopIteration as end:
                found = end.value
        assert isinstance(found, TimestampOffset)
        assert found.offset == LOCAL

    run(test)


def test_followers_are_told_that_what_they_lack_is_elsewhere(held: Held) -> None:
    replicated = Replicated(held, **SMALL)
    partition = replicated.partition
    for _ in range(END):
        held.produce(partition)
    for follower in (2, 3):
        replicated.fetch(follower, END)
    part(partition)
    with pytest.raises(OffsetMovedToTieredStorage):
        replicated.fetch(2, LOCAL - 1)
    assert replicated.fetch(2, LOCAL).records is not None
    partition.delete_records(1)
    with pytest.raises(OffsetOutOfRange):
        replicated.fetch(2, 0)
    assert partition.low_watermark == 0  # as long as a follower has more


class TestWaiting:
    """when_committed: one way for producers, coordinators and markers."""

    def test_what_is_committed_is_told_at_once(self, held: Held, partition: Partition) -> None:
        told: list[KafkaError | None] = []
        partition.when_committed(END, told.append)
        assert told == [None]
        assert not partition.watchers

    def test_it_is_told_once_when_the_followers_have_it(self, held: Held) -> None:
        replicated, told = Replicated(held), list[KafkaError | None]()
        held.produce(replicated.partition)
        replicated.partition.when_committed(1, told.append)
        replicated.fetch(2, 1)
        assert told == []
        replicated.fetch(3, 1)
        held.produce(replicated.partition)
        assert told == [None]

    def test_another_leadership_ends_the_wait_even_if_this_node_leads_again(self, held: Held) -> None:
        replicated, told = Replicated(held), list[KafkaError | None]()
        partition = replicated.partition
        held.produce(partition)
        since = partition.led_since
        partition.when_committed(1, told.append)
        replicated.lead(leader=2, leader_epoch=1)
        assert [type(one) for one in told] == [NotLeaderOrFollower]
        replicated.lead(leader=1, leader_epoch=2)
        partition.when_committed(1, told.append, since)
        assert [type(one) for one in told] == [NotLeaderOrFollower] * 2

    def test_a_wait_that_is_cancelled_is_told_nothing(self, held: Held) -> None:
        replicated, told = Replicated(held), list[KafkaError | None]()
        held.produce(replicated.partition)
        replicated.partition.when_committed(1, told.append).cancel()
        for follower in (2, 3):
            replicated.fetch(follower, 1)
        assert told == []
        assert not replicated.partition.watchers
