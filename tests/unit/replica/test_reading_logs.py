"""Fetches on real logs: limits, sessions, and what happens to a partition while a fetch waits for it."""

from __future__ import annotations

import asyncio

import pytest
from followed import Replicated

from kavka.model.errors import FencedLeaderEpoch, OffsetOutOfRange, UnknownLeaderEpoch, UnknownTopicId
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.replica.fetching import FetchEntry, FetchSessions
from kavka.replica.loading import Loading
from kavka.replica.reading import FetchAttempt, FetchLimits
from kavka.replica.stopping import stop_cleanly
from kavka.replica.waiting import Purgatory
from kavka.replication.isr import BrokerEpoch
from kavka.storage.segments import CHECKED_BYTES

BATCH = 100
LONG_MS = 60_000


class Consumer:
    """A client with a fetch session."""

    def __init__(self, held, slots=10):
        self.held = held
        self.sessions = FetchSessions(slots, 120_000, iter(range(1, 100)).__next__)
        self.session_id = self.epoch = 0
        self.waiting = Purgatory(asyncio.get_running_loop())

    def fetch(self, *entries, forgotten=(), min_bytes=1, max_bytes=1 << 20, committed=False, wait_ms=LONG_MS):
        """Start a fetch; its answer comes through a future."""
        now = self.held.clock.monotonic_ms()
        scope, incremental = self.sessions.begin(self.session_id, self.epoch, entries, forgotten, False, now)
        self.session_id, self.epoch = scope.id, scope.epoch
        answer = asyncio.get_running_loop().create_future()
        attempt = FetchAttempt(
            self.held.replicas, scope, FetchLimits(min_bytes, max_bytes, committed), incremental=incremental
        )
        if attempt.look() or not wait_ms:
            answer.set_result(attempt.result())
        else:
            attempt.park(wait_ms, self.waiting, answer.set_result, lambda: False)
        return answer


def entry(index=0, offset=0, topic="orders", max_bytes=1 << 20, epoch=-1):
    return FetchEntry(topic, index, epoch, offset, -1, -1, max_bytes)


def rows(topics):
    """Partition, error code and bytes of each row."""
    return [(row[0], row[1], len(row[7] or b"")) for _, found in topics for row in found]


def run(test):
    async def go():
        await asyncio.wait_for(test(), 10)

    asyncio.run(go())


async def turn():
    for _ in range(3):
        await asyncio.sleep(0)


def write(held, index=0, topic="orders"):
    """Append a batch of BATCH bytes."""
    partition = held.replicas.find(topic, index)
    builder = BatchBuilder()
    builder.append(None, bytes(BATCH - 68), held.clock.now_ms())
    data = builder.build()
    assert len(data) == BATCH
    partition.append(memoryview(data), 1, held.clock.now_ms(), 13)


def test_nobody_waits_for_more_than_a_log_gives_at_once_until_it_is_checked(held):
    held.topic("orders")
    while held.replicas.find("orders", 0).log.log_end_offset < 4 * CHECKED_BYTES // BATCH:
        write(held)
    stop_cleanly(held.replicas, 1)
    replicas = held.start(clean=True)

    async def test():
        assert await Loading(replicas, held.disk, held.clock, lambda: next(held.names)).run(
            held.machine.image, asyncio.Event()
        )
        for end in (False, True):
            offset = 3 * CHECKED_BYTES // BATCH + 1 if end else CHECKED_BYTES // BATCH
            answer = Consumer(held).fetch(entry(offset=offset), min_bytes=3 * CHECKED_BYTES)
            assert answer.done() is not end
            if not end:
                assert rows(answer.result()) == [(0, 0, CHECKED_BYTES)]

    run(test)


def test_a_fetch_waits_until_all_partitions_together_have_enough(held):
    held.topic("orders", 3)

    async def test():
        consumer = Consumer(held)
        write(held, 0)
        answer = consumer.fetch(entry(0), entry(1), entry(2), min_bytes=3 * BATCH)
        for index in (1, 1):
            assert not answer.done()
            write(held, index)
            await turn()
        assert rows(await answer) == [(0, 0, BATCH), (1, 0, 2 * BATCH), (2, 0, 0)]

    run(test)


def test_a_partition_that_is_new_in_a_session_is_told_of_although_another_ends_the_wait(held):
    held.topic("orders", 2)

    async def test():
        consumer = Consumer(held)
        await consumer.fetch(entry(0), wait_ms=0)
        answer = consumer.fetch(entry(1))
        await turn()
        write(held, 0)
        assert sorted(rows(await answer)) == [(0, 0, BATCH), (1, 0, 0)]

    run(test)


def test_an_idle_partition_is_told_of_once_and_looked_at_no_more(held):
    held.topic("orders", 2)

    async def test():
        consumer = Consumer(held)
        assert rows(await consumer.fetch(entry(0), entry(1), wait_ms=0)) == [(0, 0, 0), (1, 0, 0)]
        held.replicas.find("orders", 1).log = None  # would fail if it were looked at
        write(held, 0)
        assert rows(await consumer.fetch(wait_ms=0)) == [(0, 0, BATCH)]

    run(test)


def test_the_first_partition_gives_a_whole_batch_and_the_next_fetch_begins_with_the_others(held):
    held.topic("orders", 3)
    for index in range(3):
        write(held, index)
        write(held, index)

    async def test():
        consumer = Consumer(held)
        entries = [entry(index, max_bytes=10) for index in range(3)]
        first = rows(await consumer.fetch(*entries, max_bytes=10))
        assert first == [(0, 0, BATCH), (1, 0, 0), (2, 0, 0)]
        assert rows(await consumer.fetch(entry(0, 1, max_bytes=10), max_bytes=10)) == [(1, 0, BATCH)]
        assert rows(await consumer.fetch(entry(1, 1, max_bytes=10), max_bytes=10)) == [(2, 0, BATCH)]
        assert rows(await consumer.fetch(entry(2, 1, max_bytes=10), max_bytes=10)) == [(0, 0, BATCH)]

    run(test)


def test_the_limits_of_request_and_partition_cut_after_the_first_batch(held):
    held.topic("orders", 2)
    for index in (0, 0, 0, 1, 1):
        write(held, index)

    async def test():
        consumer = Consumer(held)
        found = await consumer.fetch(entry(0, max_bytes=BATCH + 30), entry(1), max_bytes=3 * BATCH - 30)
        assert rows(found) == [(0, 0, BATCH + 30), (1, 0, 2 * BATCH - 60)]

    run(test)


def test_a_batch_that_has_no_room_beside_the_first_is_left_out_whole(held):
    held.topic("orders", 4)
    for index in (0, 1, 2, 3):
        write(held, index)

    async def test():
        entries = entry(0), entry(1), entry(2, max_bytes=BATCH - 1), entry(3)
        consumer = Consumer(held)
        answer = consumer.fetch(*entries, max_bytes=3 * BATCH - 1)
        assert rows(await answer) == [(0, 0, BATCH), (1, 0, BATCH), (2, 0, 0), (3, 0, 0)]
        done = entry(0, 1), entry(1, 1)
        assert rows(await consumer.fetch(*done, max_bytes=BATCH)) == [(2, 0, BATCH)]  # the first, however small its own
        assert rows(await consumer.fetch(entry(2, 1), max_bytes=BATCH)) == [(3, 0, BATCH)]

    run(test)


def test_what_has_no_room_counts_for_the_bytes_that_a_fetch_waits_for(held):
    held.topic("orders", 2)
    for index in (0, 1):
        write(held, index)

    async def test():
        consumer = Consumer(held)
        answer = consumer.fetch(entry(0), entry(1), min_bytes=2 * BATCH - 1, max_bytes=2 * BATCH - 1)
        assert answer.done()
        assert rows(await answer) == [(0, 0, BATCH), (1, 0, 0)]
        small = Consumer(held).fetch(entry(0), entry(1, max_bytes=BATCH - 1), min_bytes=2 * BATCH)
        await turn()
        assert not small.done()  # Kafka waits for them, too: more than this cannot be read at once

    run(test)


def test_a_follower_is_given_whole_first_batches_too(held):
    replicated = Replicated(held)
    replicated.topic("payments", (1, 2, 3))
    topics = ("orders", "payments")
    for topic in topics:
        held.produce(held.replicas.find(topic, 0))
    size = replicated.partition.log.size_bytes
    entries = [entry(topic=topic, epoch=0) for topic in topics]
    scope, _ = FetchSessions(1, 120_000, iter([1]).__next__).begin(0, 0, entries, (), False, 0)
    limits = FetchLimits(1, 2 * size - 1, committed=False, follower=BrokerEpoch(2, replicated.epochs[2]))
    attempt = FetchAttempt(held.replicas, scope, limits, incremental=False)
    assert attempt.look()
    assert rows(attempt.result()) == [(0, 0, size), (0, 0, 0)]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_topic_that_is_deleted_while_a_fetch_waits_ends_the_wait(held, by_id):
    partition = held.topic("orders")

    async def test():
        consumer = Consumer(held)
        answer = consumer.fetch(entry(topic=partition.topic_id if by_id else "orders"))
        await turn()
        held.delete()
        assert rows(await answer) == [(0, UnknownTopicId.code if by_id else 3, 0)]

    run(test)


def test_a_topic_created_again_under_its_name_is_another_one(held):
    old = held.topic("orders").topic_id

    async def test():
        consumer = Consumer(held)
        by_id, by_name = consumer.fetch(entry(topic=old)), Consumer(held).fetch(entry())
        await turn()
        held.delete()
        held.topic("orders")
        assert rows(await by_id) == [(0, UnknownTopicId.code, 0)]
        await turn()
        assert not by_name.done()
        write(held)
        assert rows(await by_name) == [(0, 0, BATCH)]

    run(test)


def test_records_deleted_under_a_fetch_that_waits_are_out_of_range(held):
    partition = held.topic("orders")
    for _ in range(3):
        write(held)

    async def test():
        answer = Consumer(held).fetch(entry(offset=1), min_bytes=10 * BATCH)
        await turn()
        partition.delete_records(2)
        assert rows(await answer) == [(0, OffsetOutOfRange.code, 0)]

    run(test)


def test_a_session_that_is_evicted_while_it_waits_is_still_served_and_then_over(held):
    held.topic("orders", 2)

    async def test():
        consumer = Consumer(held, slots=1)
        await consumer.fetch(entry(0), wait_ms=0)
        answer = consumer.fetch()
        held.clock.advance(120_001)
        other = Consumer(held)
        other.sessions = consumer.sessions
        await other.fetch(entry(0), entry(1), wait_ms=0)
        assert consumer.sessions.evictions == 1
        write(held, 0)
        assert rows(await answer) == [(0, 0, BATCH)]
        partition = held.replicas.find("orders", 0)
        assert {one.owner.id for one in partition.watchers} <= {other.session_id}

    run(test)


def test_a_request_whose_session_goes_on_without_it_is_told_so(held):
    held.topic("orders")

    async def test():
        consumer = Consumer(held)
        await consumer.fetch(entry(0), wait_ms=0)
        first = consumer.fetch()
        second = consumer.fetch()
        assert await first is None
        write(held)
        assert rows(await second) == [(0, 0, BATCH)]

    run(test)


@pytest.mark.parametrize(("epoch", "error"), [(0, 0), (-1, 0), (-7, 0), (1, UnknownLeaderEpoch.code)])
def test_a_leader_epoch_that_is_not_there_yet_is_unknown(held, epoch, error):
    held.topic("orders")

    async def test():
        ((_, code, _),) = rows(await Consumer(held).fetch(entry(epoch=epoch), wait_ms=0))
        assert code == error

    run(test)


def test_an_old_leader_epoch_is_fenced_with_the_leader_and_its_epoch(held):
    partition = held.topic("orders")
    partition.leader_epoch = 4

    async def test():
        ((_, (row,)),) = await Consumer(held).fetch(entry(epoch=3), wait_ms=0)
        assert row[1] == FencedLeaderEpoch.code
        assert row[9] == (1, 0)  # as the metadata says

    run(test)


def test_committed_data_is_waited_for_until_its_transaction_ends(held):
    partition = held.topic("orders")

    async def test():
        builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        builder.append(None, b"in doubt", held.clock.now_ms())
        partition.append(memoryview(builder.build()), -1, held.clock.now_ms(), 13)
        reading, uncommitted = Consumer(held).fetch(entry(), committed=True), Consumer(held).fetch(entry())
        await turn()
        assert uncommitted.done()
        assert not reading.done()
        marker = txn_marker_batch(
            commit=False, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=held.clock.now_ms()
        )
        partition.append_own(marker, held.clock.now_ms())
        ((_, (row,)),) = await reading
        assert list(row[5]) == [(5, 0)]

    run(test)


def test_a_fault_of_ours_is_that_partitions_unknown_server_error(held, caplog):
    held.topic("orders", 2)
    write(held, 1)
    held.replicas.find("orders", 0).log.producers = None

    async def test():
        assert rows(await Consumer(held).fetch(entry(0), entry(1))) == [(0, -1, 0), (1, 0, BATCH)]

    run(test)
    assert "AttributeError" in caplog.text


def test_a_disk_that_does_not_read_is_that_partitions_storage_error(held):
    held.topic("orders", 2)
    write(held, 0)
    write(held, 1)

    async def test():
        held.disk.faults = {"read": "orders-0/"}
        consumer = Consumer(held)
        assert rows(await consumer.fetch(entry(0), entry(1))) == [(0, 56, 0), (1, 0, BATCH)]
        held.disk.faults = {}
        assert rows(await consumer.fetch(entry(1, 1))) == [(0, 0, BATCH)]

    run(test)
