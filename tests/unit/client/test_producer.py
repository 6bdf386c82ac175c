"""The producer against a played cluster: batching, retries, sequence recovery, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.client import Delivered, Pool, Producer, partition_for_key
from kavka.client.batching import Delivery
from kavka.model.clock import ManualClock
from kavka.model.errors import (
    ClusterAuthorizationFailed,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.init_producer_id import InitProducerIdResponse

Played = Any  # the class is in conftest.py, which tests cannot import


def produce(played: Played, work: Callable[[Producer], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(10), played.pool() as pool, Producer(pool, **options) as producer:
            await work(producer)

    asyncio.run(run())


async def send(producer: Producer, *values: bytes, **options: Any) -> list[Delivery]:
    return [await producer.send("orders", value, **options) for value in values]


def numbers(played: Played) -> list[tuple[int, int, int]]:
    return [(each.info.producer_epoch, each.info.base_sequence, each.info.count) for each in played.partition.log]


def test_records_sent_within_the_linger_time_share_a_batch(played: Played) -> None:
    async def work(producer: Producer) -> None:
        deliveries = await send(producer, b"a", b"b", b"c")
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2]

    produce(played, work, linger_ms=20)
    assert [each.values for each in played.partition.log] == [[b"a", b"b", b"c"]]


def test_a_full_batch_does_not_wait_for_the_linger_time(played: Played) -> None:
    async def work(producer: Producer) -> None:
        deliveries = await send(producer, b"x" * 60, b"y" * 60, b"z" * 60)
        await asyncio.wait_for(_first(deliveries), 5)

    async def _first(deliveries: list[Delivery]) -> None:
        await deliveries[0]
        await deliveries[1]

    produce(played, work, linger_ms=60_000, batch_bytes=150)
    assert [len(each.values) for each in played.partition.log] == [1, 1, 1]


def test_leaving_the_block_sends_what_is_buffered(played: Played) -> None:
    async def work(producer: Producer) -> None:
        await send(producer, b"a")

    produce(played, work, linger_ms=60_000)
    assert played.partition.values == [b"a"]


def test_an_exception_in_the_block_leaves_as_it_is(played: Played) -> None:
    async def work(producer: Producer) -> None:
        await send(producer, b"a")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        produce(played, work, linger_ms=60_000)
    assert played.partition.values == []


def test_a_record_carries_the_clocks_time_unless_it_brings_its_own(played: Played) -> None:
    async def work(producer: Producer) -> None:
        now, own = await send(producer, b"a"), await send(producer, b"b", timestamp=5)
        assert (await now[0]).timestamp == 1234
        assert (await own[0]).timestamp == 5

    produce(played, work, clock=ManualClock(1234))


def test_a_key_decides_the_partition(played: Played) -> None:
    played.topics["orders"] = {index: type(played.partition)() for index in range(7)}

    async def work(producer: Producer) -> None:
        for key in (b"a", b"b", b"abcd"):
            (delivery,) = await send(producer, b"v", key=key)
            assert (await delivery).partition == partition_for_key(key, 7)

    produce(played, work)


def test_a_batch_per_partition_goes_in_one_request(played: Played) -> None:
    played.topics["orders"] = {index: type(played.partition)() for index in range(3)}

    async def work(producer: Producer) -> None:
        for index in range(3):
            await send(producer, b"v", partition=index)

    produce(played, work, linger_ms=60_000)
    assert [[index for index, _ in request] for request in played.produces] == [[0, 1, 2]]


def test_a_request_stays_under_its_size_limit(played: Played) -> None:
    played.topics["orders"] = {index: type(played.partition)() for index in range(4)}

    async def work(producer: Producer) -> None:
        for index in range(4):
            await send(producer, b"v" * 1000, partition=index)

    produce(played, work, linger_ms=60_000, max_request_bytes=3000)
    assert [len(request) for request in played.produces] == [2, 2]


@pytest.mark.parametrize("error", [NotLeaderOrFollower.code, 7, 19, 20, 100])
def test_a_passing_error_is_tried_again_in_order_and_once(played: Played, error: int) -> None:
    played.partition.errors = [error, error]

    async def work(producer: Producer) -> None:
        for index in range(20):
            await send(producer, b"%d" % index)

    produce(played, work, batch_bytes=75, linger_ms=0)
    assert played.partition.values == [b"%d" % index for index in range(20)]
    assert {epoch for epoch, _, _ in numbers(played)} == {0}


@pytest.mark.parametrize("fault", ["drop", "lose"])
def test_a_lost_connection_neither_loses_nor_repeats_nor_reorders(played: Played, fault: str) -> None:
    played.partition.errors = [0, fault, 0, fault, fault]

    async def work(producer: Producer) -> None:
        for index in range(30):
            await send(producer, b"%d" % index)
            await asyncio.sleep(0)

    produce(played, work, batch_bytes=75, linger_ms=0)
    assert played.partition.values == [b"%d" % index for index in range(30)]


def test_the_leader_is_followed_to_another_node(played: Played) -> None:
    played.nodes = [0, 1]

    async def work(producer: Producer) -> None:
        (before,) = await send(producer, b"a")
        assert (await before).offset == 0
        played.partition.leader = 1
        played.down.add(0)
        (after,) = await send(producer, b"b")
        assert (await after).offset == 1

    produce(played, work)


def test_a_gap_in_the_sequence_starts_a_new_epoch(played: Played) -> None:
    async def work(producer: Producer) -> None:
        (first,) = await send(producer, b"a")
        await first
        played.partition.errors = [OutOfOrderSequenceNumber.code]
        (second,) = await send(producer, b"b")
        assert (await second).offset == 1

    produce(played, work)
    assert numbers(played) == [(0, 0, 1), (1, 0, 1)]


def test_a_broker_that_forgot_the_producer_gets_a_new_epoch(played: Played) -> None:
    async def work(producer: Producer) -> None:
        (first,) = await send(producer, b"a")
        await first
        played.partition.errors = [UnknownProducerId.code]
        (second,) = await send(producer, b"b")
        assert (await second).offset == 1

    produce(played, work)
    assert numbers(played) == [(0, 0, 1), (1, 0, 1)]


def test_a_refused_batch_does_not_stop_those_behind_it(played: Played) -> None:
    played.partition.errors = [InvalidRecord.code]

    async def work(producer: Producer) -> None:
        refused, *others = await send(producer, b"bad", b"1", b"2", b"3")
        with pytest.raises(InvalidRecord):
            await refused
        assert [(await other).offset for other in others] == [0, 1, 2]

    produce(played, work, batch_bytes=75, linger_ms=0)
    assert played.partition.values == [b"1", b"2", b"3"]


def test_a_batch_too_large_for_the_broker_is_split(played: Played) -> None:
    played.max_batch_bytes = 200

    async def work(producer: Producer) -> None:
        deliveries = await send(producer, *(b"%d" % index * 40 for index in range(9)), linger=None)
        assert [(await delivery).offset for delivery in deliveries] == list(range(9))

    async def send(producer: Producer, *values: bytes, linger: None) -> list[Delivery]:
        return [await producer.send("orders", value) for value in values]

    produce(played, work, linger_ms=20)
    assert len(played.partition.values) == 9
    assert all(len(each.values) <= 3 for each in played.partition.log)


def test_a_single_record_too_large_for_the_broker_is_an_error(played: Played) -> None:
    played.max_batch_bytes = 100

    async def work(producer: Producer) -> None:
        large, small = await send(producer, b"x" * 500, b"y")
        with pytest.raises(MessageTooLarge):
            await large
        assert (await small).offset == 0

    produce(played, work, linger_ms=20)


def test_a_record_too_large_for_a_request_is_refused_at_once(played: Played) -> None:
    async def work(producer: Producer) -> None:
        with pytest.raises(MessageTooLarge):
            await send(producer, b"x" * 5000)

    produce(played, work, max_request_bytes=4000)
    assert played.produces == []


def test_flush_raises_a_failure_that_nobody_asked_about(played: Played) -> None:
    async def work(producer: Producer) -> None:
        played.partition.errors = [InvalidRecord.code]
        await send(producer, b"a")
        with pytest.raises(InvalidRecord):
            await producer.flush()
        await producer.flush()

    produce(played, work)


def test_a_failure_that_was_asked_about_is_not_told_twice(played: Played) -> None:
    async def work(producer: Producer) -> None:
        played.partition.errors = [InvalidRecord.code]
        (delivery,) = await send(producer, b"a")
        with pytest.raises(InvalidRecord):
            await delivery
        await producer.flush()

    produce(played, work)


def test_a_record_that_cannot_be_delivered_in_time_fails(played: Played) -> None:
    played.partition.errors = [NotLeaderOrFollower.code] * 1000

    async def work(producer: Producer) -> None:
        (delivery,) = await send(producer, b"a")
        with pytest.raises(RequestTimedOut, match="orders-0: not acknowledged in time"):
            await delivery

    produce(played, work, delivery_timeout_ms=50, linger_ms=0)


def test_without_acks_a_record_counts_as_sent_when_it_is_written(played: Played) -> None:
    async def work(producer: Producer) -> None:
        (delivery,) = await send(producer, b"a")
        assert await delivery == Delivered("orders", 0, -1, (await delivery).timestamp)

    produce(played, work, acks=0)
    assert played.partition.values == [b"a"]


def test_a_full_buffer_makes_the_sender_wait(played: Played) -> None:
    played.held = []

    async def work(producer: Producer) -> None:
        await send(producer, b"x" * 600)
        blocked = asyncio.ensure_future(producer.send("orders", b"y" * 600))
        await asyncio.sleep(0.02)
        assert not blocked.done()
        played.release()
        assert (await (await blocked)).offset == 1

    produce(played, work, buffer_bytes=1000, linger_ms=0)


def test_a_buffer_that_stays_full_is_an_error(played: Played) -> None:
    played.held = []

    async def work(producer: Producer) -> None:
        await send(producer, b"x" * 600)
        with pytest.raises(RequestTimedOut, match="buffer stayed full"):
            await send(producer, b"y" * 600)
        played.release()

    produce(played, work, buffer_bytes=1000, linger_ms=0, max_block_ms=20)


def test_an_unknown_topic_is_an_error_after_the_time_to_wait_for_it(played: Played) -> None:
    async def work(producer: Producer) -> None:
        with pytest.raises(UnknownTopicOrPartition, match="'nope'"):
            await producer.send("nope", b"a")

    produce(played, work, max_block_ms=10)


def test_an_unknown_partition_is_an_error(played: Played) -> None:
    async def work(producer: Producer) -> None:
        with pytest.raises(UnknownTopicOrPartition, match="no partition 5"):
            await send(producer, b"a", partition=5)

    produce(played, work)


def test_a_producer_that_gets_no_id_fails_its_records(played: Played) -> None:
    def refuse(node: int, request: object) -> object:
        code = ClusterAuthorizationFailed.code
        return InitProducerIdResponse(error_code=code, producer_epoch=0)

    played.on_init_producer_id = refuse

    async def work(producer: Producer) -> None:
        (delivery,) = await send(producer, b"a")
        with pytest.raises(ClusterAuthorizationFailed):
            await delivery

    produce(played, work)


def test_without_idempotence_no_producer_id_is_asked_for(played: Played) -> None:
    async def work(producer: Producer) -> None:
        await send(producer, b"a")

    produce(played, work, idempotence=False)
    assert played.requests[ApiKey.INIT_PRODUCER_ID] == 0
    assert numbers(played) == [(-1, -1, 1)]


@pytest.mark.parametrize(
    ("record", "advice"),
    [
        ({"value": "text"}, r"a record's value is bytes or None, not str: value\.encode\(\)"),
        ({"value": {"a": 1}}, "a record's value is bytes or None, not dict"),
        ({"value": b"v", "key": "k"}, r"a record's key is bytes or None, not str: key\.encode\(\)"),
        ({"value": b"v", "headers": {"ab": b"c"}}, r"list\(headers\.items\(\)\)"),
        ({"value": b"v", "headers": [("a", "b")]}, "header 'a' is bytes or None, not str"),
        ({"value": b"v", "headers": ["ab"]}, "a header is a pair of a name and bytes"),
    ],
)
def test_what_a_record_cannot_be_made_of_is_said_with_what_to_do(
    played: Played, record: dict[str, Any], advice: str
) -> None:
    async def work(producer: Producer) -> None:
        with pytest.raises(TypeError, match=advice):
            await producer.send("orders", **record)

    produce(played, work)


def test_start_and_stop_are_a_block(played: Played) -> None:
    async def run() -> None:
        async with played.pool() as pool:
            producer = await Producer(pool).start()
            await producer.send("orders", b"a")
            await producer.stop()

    asyncio.run(run())
    assert [each.values for each in played.partition.log] == [[b"a"]]


def test_a_value_that_is_no_bytes_is_refused_and_harms_nothing(played: Played) -> None:
    async def work(producer: Producer) -> None:
        with pytest.raises(TypeError):
            await producer.send("orders", "text")  # type: ignore[arg-type]
        (delivery,) = await send(producer, b"a")
        assert (await delivery).offset == 0

    produce(played, work)


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 2},
        {"acks": 1, "idempotence": True},
        {"codec": "brotli"},
        {"max_in_flight": 0},
        {"max_in_flight": 6},
        {"linger_ms": -1},
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Producer("localhost:9092", **options)


def test_a_cluster_that_cannot_be_reached_is_an_error_at_once(played: Played) -> None:
    played.down.add(0)

    async def run() -> None:
        pool: Pool = played.pool()
        with pytest.raises(KafkaError, match="cannot connect to node0:1"):
            await pool.topic("orders")

    asyncio.run(run())


def test_a_producer_that_is_not_open_says_so() -> None:
    async def run() -> None:
        with pytest.raises(RuntimeError, match="async with"):
            await Producer("localhost:9092").send("orders", b"a")

    asyncio.run(run())
