"""Transactions of confluent-kafka and aiokafka, as they are, against a real node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.client import Admin

WAIT_S = 30.0
PARTITIONS = 3


@pytest.fixture
def create(kavka: Any) -> Callable[..., str]:
    """Makes a topic that nobody else has."""
    admin = AdminClient({"bootstrap.servers": kavka.bootstrap})

    def make(partitions: int = PARTITIONS) -> str:
        name = f"txn-{os.urandom(6).hex()}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while name not in admin.list_topics(timeout=WAIT_S).topics:
            assert time.monotonic() < deadline
        return name

    return make


@pytest.fixture
def transactional_id() -> str:
    return f"id-{os.urandom(6).hex()}"


# -- confluent-kafka --------------------------------------------------------------------------------------------


def producer_of(kavka: Any, transactional_id: str, **more: Any) -> Producer:
    producer = Producer({"bootstrap.servers": kavka.bootstrap, "transactional.id": transactional_id, **more})
    producer.init_transactions(WAIT_S)
    return producer


def consumer_of(kavka: Any, group: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kavka.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


async def all_ended(bootstrap: str) -> None:
    """Wait until the markers of all decided transactions are written: a commit is answered before they are."""
    async with Admin(bootstrap) as admin:
        while await admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]):
            await asyncio.sleep(0.01)


def read_all(kavka: Any, topic: str, isolation: str = "read_committed") -> list[str]:
    """The values of all partitions of a topic, up to the ends that the isolation has now."""
    asyncio.run(all_ended(kavka.bootstrap))
    consumer = consumer_of(kavka, f"g-{os.urandom(6).hex()}", isolation)
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[str] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline
        message: Message | None = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message.value().decode())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise KafkaException(error)
    consumer.close()
    return sorted(found)


def write(producer: Producer, topic: str, *values: str) -> None:
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    producer.flush(WAIT_S)


def test_a_transaction_over_many_partitions_is_seen_when_it_is_committed(
    kavka: Any, create: Callable[..., str], transactional_id: str
) -> None:
    topic = create()
    producer = producer_of(kavka, transactional_id)
    values = [f"v{number}" for number in range(7)]
    producer.begin_transaction()
    write(producer, topic, *values)
    assert read_all(kavka, topic) == []
    assert read_all(kavka, topic, "read_uncommitted") == values
    producer.commit_transaction(WAIT_S)
    assert read_all(kavka, topic) == values


def test_an_aborted_transaction_is_never_seen(kavka: Any, create: Callable[..., str], transactional_id: str) -> None:
    topic = create()
    producer = producer_of(kavka, transactional_id)
    for number in range(6):
        producer.begin_transaction()
        write(producer, topic, f"{number}-a", f"{number}-b", f"{number}-c")
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    assert read_all(kavka, topic) == sorted(f"{number}-{each}" for number in (0, 2, 4) for each in "abc")


def test_plain_records_behind_an_open_transaction_wait_for_it(
    kavka: Any, create: Callable[..., str], transactional_id: str
) -> None:
    topic = create()
    producer, plain = producer_of(kavka, transactional_id), Producer({"bootstrap.servers": kavka.bootstrap})
    producer.begin_transaction()
    write(producer, topic, "in")
    write(plain, topic, "behind")
    assert read_all(kavka, topic) == []
    producer.abort_transaction(WAIT_S)
    assert read_all(kavka, topic) == ["behind"]


def test_offsets_and_records_are_committed_together_or_not_at_all(
    kavka: Any, create: Callable[..., str], transactional_id: str
) -> None:
    source, sink = create(), create()
    write(Producer({"bootstrap.servers": kavka.bootstrap}), source, *(f"v{number}" for number in range(9)))
    group = f"g-{transactional_id}"
    consumer = consumer_of(kavka, group)
    consumer.subscribe([source])
    producer = producer_of(kavka, transactional_id)
    taken: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(taken) < 9:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            taken.append(message)
    for commits in (False, True):
        producer.begin_transaction()
        for message in taken:
            producer.produce(sink, message.value(), partition=message.partition())
        ends = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata(), WAIT_S)
        if commits:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
        committed = {one.partition: one.offset for one in consumer.committed(consumer.assignment(), WAIT_S)}
        assert committed == ({0: 3, 1: 3, 2: 3} if commits else {0: -1001, 1: -1001, 2: -1001})
    consumer.close()
    assert read_all(kavka, sink) == [f"v{number}" for number in range(9)]


def test_of_two_instances_the_older_is_fenced(kavka: Any, create: Callable[..., str], transactional_id: str) -> None:
    topic = create()
    old = producer_of(kavka, transactional_id)
    old.begin_transaction()
    write(old, topic, "old")
    new = producer_of(kavka, transactional_id)
    old.produce(topic, "zombie", partition=1)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(WAIT_S)
    assert refused.value.args[0].fatal()
    new.begin_transaction()
    write(new, topic, "new")
    new.commit_transaction(WAIT_S)
    assert read_all(kavka, topic) == ["new"]


def test_a_transaction_that_takes_too_long_is_aborted(
    kavka: Any, create: Callable[..., str], transactional_id: str
) -> None:
    topic = create()
    producer = producer_of(kavka, transactional_id, **{"transaction.timeout.ms": 1000, "message.timeout.ms": 1000})
    producer.begin_transaction()
    write(producer, topic, "late")
    Producer({"bootstrap.servers": kavka.bootstrap}).produce(topic, "x", partition=1)
    deadline = time.monotonic() + WAIT_S
    write(Producer({"bootstrap.servers": kavka.bootstrap}), topic, "after")
    while "after" not in read_all(kavka, topic):  # the coordinator looks every ten seconds
        assert time.monotonic() < deadline
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)
    assert "late" not in read_all(kavka, topic)


# -- aiokafka ---------------------------------------------------------------------------------------------------


def play(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def aio_producer(kavka: Any, transactional_id: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=kavka.bootstrap, transactional_id=transactional_id)


async def aio_read(kavka: Any, topic: str, count: int) -> list[str]:
    """So many values, and no more within a while."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kavka.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    async with consumer:
        consumer.assign([AioTopicPartition(topic, index) for index in range(PARTITIONS)])
        found: list[str] = []
        while True:
            timeout_ms = 10_000 if len(found) < count else 500
            batch = await consumer.getmany(timeout_ms=timeout_ms)
            values = [(one.value or b"").decode() for rows in batch.values() for one in rows]
            found += values
            if not values and len(found) >= count:
                return sorted(found)
            assert values, f"only {found}"


def test_aiokafka_commits_and_aborts(kavka: Any, create: Callable[..., str], transactional_id: str) -> None:
    topic = create()

    async def case() -> None:
        async with aio_producer(kavka, transactional_id) as producer:
            for number in range(6):
                await producer.begin_transaction()
                for index in range(PARTITIONS):
                    await producer.send_and_wait(topic, f"{number}-{index}".encode(), partition=index)
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        expected = sorted(f"{number}-{index}" for number in (0, 2, 4) for index in range(PARTITIONS))
        assert await aio_read(kavka, topic, len(expected)) == expected

    play(case())


def test_aiokafka_commits_offsets_with_its_records(
    kavka: Any, create: Callable[..., str], transactional_id: str
) -> None:
    source, sink = create(), create()
    write(Producer({"bootstrap.servers": kavka.bootstrap}), source, *(f"v{number}" for number in range(9)))
    group = f"g-{transactional_id}"

    async def case() -> None:
        consumer = AIOKafkaConsumer(
            source,
            bootstrap_servers=kavka.bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer, aio_producer(kavka, transactional_id) as producer:
            left = 9
            while left:
                batch = await consumer.getmany(timeout_ms=5000)
                async with producer.transaction():
                    for tp, rows in batch.items():
                        for one in rows:
                            await producer.send(sink, one.value, partition=tp.partition)
                            left -= 1
                    ends = {tp: rows[-1].offset + 1 for tp, rows in batch.items()}
                    if ends:
                        await producer.send_offsets_to_transaction(ends, group)
            places = [AioTopicPartition(source, index) for index in range(PARTITIONS)]
            while [await consumer.committed(one) for one in places] != [3, 3, 3]:
                await asyncio.sleep(0.05)  # aiokafka does not ask for stable offsets: the markers may be on their way
        assert await aio_read(kavka, sink, 9) == [f"v{number}" for number in range(9)]

    play(case())


def test_aiokafka_is_fenced_by_a_later_instance(kavka: Any, create: Callable[..., str], transactional_id: str) -> None:
    topic = create()

    async def case() -> None:
        old, new = aio_producer(kavka, transactional_id), aio_producer(kavka, transactional_id)
        await old.start()
        await old.begin_transaction()
        await old.send_and_wait(topic, b"old", partition=0)
        await new.start()
        with pytest.raises(AioKafkaError) as refused:
            await old.commit_transaction()
        assert isinstance(refused.value, ProducerFenced)
        async with new.transaction():
            await new.send(topic, b"new", partition=0)
        await new.stop()
        with contextlib.suppress(AioKafkaError):
            await old.stop()
        assert await aio_read(kavka, topic, 1) == ["new"]

    play(case())
