"""The order and the numbers of a partition's batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kavka.client.batching import Batch, Delivered, Delivery, Outcome, PartitionQueue, record_size
from kavka.model.errors import InvalidRecord, TopicAuthorizationFailed
from kavka.model.types import TopicPartition
from kavka.records.batch import Record

TP = TopicPartition("orders", 0)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Queue(PartitionQueue):
    """A queue with shorthand for its tests."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, idempotent: bool = True, max_unanswered: int = 5) -> None:
        super().__init__(TP, idempotent=idempotent, max_unanswered=max_unanswered)
        self.loop = loop
        if idempotent:
            self.adopt(77, 0)

    def add(self, records: int = 1, ready_at: float = 0.0, deadline: float = 100.0) -> Batch:
        batch = Batch(TP, 0, None, ready_at, deadline, self.loop.create_future())
        for _ in range(records):
            batch.builder.append(None, b"v")
        self.waiting.append(batch)
        return batch

    def send(self, now: float = 0.0) -> Batch | None:
        batch = self.candidate(now)
        if batch is not None:
            self.take(batch)
        return batch


def test_batches_are_numbered_in_the_order_they_are_sent(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    first, second = queue.add(3), queue.add(2)
    assert [queue.send(), queue.send(), queue.send()] == [first, second, None]
    assert [(b.producer_id, b.producer_epoch, b.base_sequence) for b in (first, second)] == [(77, 0, 0), (77, 0, 3)]


def test_sequence_numbers_wrap_to_zero_after_the_largest_int32(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    queue._next_sequence = 2**31 - 2
    first, second = queue.add(3), queue.add(1)
    queue.send()
    queue.send()
    assert first.base_sequence == 2**31 - 2
    assert second.base_sequence == 1


def test_a_lone_batch_waits_for_its_linger_and_a_full_one_does_not(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    first = queue.add(ready_at=5.0)
    assert queue.send(now=4.9) is None
    second = queue.add(ready_at=9.0)
    assert queue.send(now=4.9) is first
    assert queue.send(now=4.9) is None
    assert queue.send(now=9.0) is second


def test_at_most_five_batches_of_a_partition_are_unanswered(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop, max_unanswered=9)
    batches = [queue.add() for _ in range(6)]
    assert [queue.send() for _ in range(6)] == [*batches[:5], None]
    queue.acknowledge(batches[0])
    assert queue.send() is batches[5]


def test_nothing_overtakes_a_batch_that_must_be_sent_again(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    first, second, third = queue.add(), queue.add(), queue.add()
    queue.send()
    queue.send()
    queue.again(first, not_before=1.0)
    assert queue.send(now=0.5) is None
    assert queue.send(now=1.0) is first
    queue.again(second, not_before=1.0)
    assert queue.send(now=2.0) is None, "the first has no answer yet"
    queue.acknowledge(first)
    assert queue.send(now=2.0) is second
    assert queue.send(now=2.0) is third
    assert [b.base_sequence for b in (first, second, third)] == [0, 1, 2]


def test_a_batch_is_the_same_bytes_at_every_attempt(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    batch = queue.add()
    queue.send()
    before = batch.encoded()
    queue.again(batch, not_before=0.0)
    assert queue.send() is batch
    assert batch.encoded() is before
    assert batch.attempts == 2


def test_a_gap_after_what_was_acknowledged_starts_a_new_epoch(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    done, lost, later = queue.add(2), queue.add(3), queue.add(4)
    queue.send()
    queue.acknowledge(done)
    queue.send()
    queue.send()
    queue.out_of_order(lost)
    queue.again(lost, not_before=0.0)
    assert queue.send() is None, "the answer to the later batch must come first"
    queue.out_of_order(later)
    queue.again(later, not_before=0.0)
    assert queue.send() is lost
    assert (lost.producer_epoch, lost.base_sequence) == (1, 0)
    assert (later.producer_epoch, later.base_sequence) == (1, 3)


def test_a_batch_behind_one_that_is_sent_again_keeps_its_number(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    first, second = queue.add(), queue.add()
    queue.send()
    queue.send()
    queue.again(first, not_before=0.0)
    queue.out_of_order(second)
    queue.again(second, not_before=0.0)
    assert queue.send() is first
    queue.acknowledge(first)
    assert queue.send() is second
    assert (second.producer_epoch, second.base_sequence) == (0, 1)


def test_a_refused_batch_leaves_no_gap_for_those_behind_it(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    refused, behind = queue.add(), queue.add()
    queue.send()
    queue.send()
    queue.refuse(refused)
    queue.out_of_order(behind)
    queue.again(behind, not_before=0.0)
    assert queue.send() is behind
    assert (behind.producer_epoch, behind.base_sequence) == (1, 0)


def test_an_expired_batch_that_may_be_in_the_log_blocks_new_ones_until_that_is_known(
    loop: asyncio.AbstractEventLoop,
) -> None:
    queue = Queue(loop)
    expired, behind, new = queue.add(deadline=10.0), queue.add(), queue.add()
    queue.send()
    queue.send()
    queue.again(expired, not_before=0.0)
    assert queue.expire(now=10.0) == [expired]
    assert queue.send(now=10.0) is None
    queue.acknowledge(behind)
    assert queue.send(now=10.0) is new
    assert (new.producer_epoch, new.base_sequence) == (0, 2), "the batch behind it was accepted, so it was there"


def test_a_batch_refused_right_after_an_expired_one_shows_that_that_one_never_arrived(
    loop: asyncio.AbstractEventLoop,
) -> None:
    queue = Queue(loop)
    expired, behind = queue.add(deadline=10.0), queue.add()
    queue.send()
    queue.send()
    queue.again(expired, not_before=0.0)
    queue.expire(now=10.0)
    queue.out_of_order(behind)
    queue.again(behind, not_before=0.0)
    assert queue.send(now=10.0) is behind
    assert (behind.producer_epoch, behind.base_sequence) == (1, 0)


def test_when_all_that_was_sent_expires_the_next_batch_starts_a_new_epoch(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    expired, new = queue.add(deadline=10.0), queue.add()
    queue.send()
    queue.again(expired, not_before=0.0)
    queue.expire(now=10.0)
    assert queue.send(now=10.0) is new
    assert (new.producer_epoch, new.base_sequence) == (1, 0)


def test_a_batch_whose_answer_may_still_come_does_not_expire(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    queue.add(deadline=10.0)
    queue.send()
    assert queue.expire(now=11.0) == []


def test_batches_that_were_never_sent_expire_without_trace(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    old, new = queue.add(deadline=10.0), queue.add()
    assert queue.expire(now=10.0) == [old]
    assert queue.send(now=10.0) is new
    assert (new.producer_epoch, new.base_sequence) == (0, 0)


def test_after_the_last_epoch_a_new_producer_id_is_needed(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    queue.adopt(77, 0x7FFF)
    batch = queue.add()
    queue.send()
    queue.lost_state()
    queue.again(batch, not_before=0.0)
    assert queue.send() is None
    assert queue.needs_producer_id
    queue.adopt(78, 0)
    assert queue.send() is batch
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (78, 0, 0)


def test_the_parts_of_a_split_batch_take_its_place_and_its_numbers(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    large, behind = queue.add(3), queue.add(1)
    queue.send()
    queue.send()
    parts = [queue.add(2), queue.add(1)]
    queue.waiting.clear()
    queue.split(large, parts)
    queue.again(behind, not_before=0.0)
    sent = []
    while (batch := queue.send()) is not None:
        queue.acknowledge(batch)
        sent.append((batch, batch.base_sequence))
    assert sent == [(parts[0], 0), (parts[1], 2), (behind, 3)]


def test_without_idempotence_batches_carry_no_numbers(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop, idempotent=False)
    batch = queue.add()
    assert queue.send() is batch
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)


def test_a_queue_wakes_for_its_linger_its_backoff_and_its_deadline(loop: asyncio.AbstractEventLoop) -> None:
    queue = Queue(loop)
    assert queue.wake_at(0.0) == float("inf")
    first, second = queue.add(ready_at=5.0, deadline=50.0), queue.add(deadline=60.0)
    assert queue.wake_at(0.0) == 5.0
    queue.send(now=5.0)
    queue.send(now=5.0)
    assert queue.wake_at(5.0) == float("inf")
    queue.again(first, not_before=7.0)
    queue.again(second, not_before=6.0)
    assert queue.wake_at(5.0) == 7.0, "the second cannot go before the first"
    assert queue.wake_at(7.0) == 50.0


def test_a_delivery_has_the_offset_of_its_own_record(loop: asyncio.AbstractEventLoop) -> None:
    batch = Queue(loop).add(3)
    deliveries = [Delivery(batch, index, 1000 + index) for index in range(3)]
    batch.end(Outcome(base_offset=40))
    assert [delivery.result() for delivery in deliveries] == [
        Delivered("orders", 0, 40, 1000),
        Delivered("orders", 0, 41, 1001),
        Delivered("orders", 0, 42, 1002),
    ]


def test_a_delivery_has_the_brokers_time_where_the_topic_says_so(loop: asyncio.AbstractEventLoop) -> None:
    batch = Queue(loop).add()
    batch.end(Outcome(base_offset=0, log_append_time=555))
    assert Delivery(batch, 0, 1000).result().timestamp == 555


def test_awaiting_a_delivery_raises_what_went_wrong(loop: asyncio.AbstractEventLoop) -> None:
    batch = Queue(loop).add()

    async def awaits() -> None:
        await Delivery(batch, 0, 0)

    loop.call_soon(batch.end, Outcome(error=TopicAuthorizationFailed("no")))
    with pytest.raises(TopicAuthorizationFailed, match="no"):
        loop.run_until_complete(awaits())


def test_one_cancelled_waiter_does_not_take_the_outcome_from_another(loop: asyncio.AbstractEventLoop) -> None:
    batch = Queue(loop).add(2)

    async def race() -> Delivered:
        hasty = asyncio.ensure_future(asyncio.wait_for(Delivery(batch, 0, 0), 0.01))
        with pytest.raises(TimeoutError):
            await hasty
        batch.end(Outcome(base_offset=7))
        return await Delivery(batch, 1, 0)

    assert loop.run_until_complete(race()).offset == 8


def test_an_error_is_raised_anew_for_each_record(loop: asyncio.AbstractEventLoop) -> None:
    batch = Queue(loop).add(2)
    batch.end(Outcome(error=InvalidRecord("bad")))
    errors = []
    for index in range(2):
        with pytest.raises(InvalidRecord) as caught:
            Delivery(batch, index, 0).result()
        errors.append(caught.value)
    assert errors[0] is not errors[1]


def test_the_size_bound_of_a_record_is_never_too_small(loop: asyncio.AbstractEventLoop) -> None:
    headers = [("é" * 40, b"x" * 300), ("n", None)]
    record = Record(0, 1, b"k" * 70_000, b"v" * 3, tuple(headers))
    batch = Queue(loop).add(0)
    before = batch.builder.size
    batch.builder.append(record.key, record.value, 1, headers)
    assert batch.builder.size - before <= record_size(record.key, record.value, headers)
