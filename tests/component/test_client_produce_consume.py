"""The client's producer and consumer on a running node. (KAVKA_TEST_BOOTSTRAP runs the same on any Kafka.)"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kavka.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Admin,
    At,
    Codec,
    Consumer,
    ConsumerRecord,
    Pool,
    Producer,
    TopicPartition,
    partition_for_key,
)
from kavka.model.errors import InvalidRecord, MessageTooLarge, OffsetOutOfRange, UnknownTopicOrPartition
from kavka.testing.plugin import Kavka

CODECS: list[Codec] = ["none", "gzip", "snappy", "lz4", "zstd"]


def run(kavka: Kavka, work: Callable[[Pool], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(60), Pool(kavka.bootstrap) as pool:
            await work(pool)

    asyncio.run(inside())


async def read_all(pool: Pool, topic: str) -> list[ConsumerRecord]:
    async with Consumer(pool) as consumer:
        await consumer.assign(topic)
        return [record async for record in consumer.until_end()]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotence", [True, False])
def test_what_is_produced_is_consumed(kavka: Kavka, codec: Codec, idempotence: bool) -> None:
    topic = kavka.topic()

    async def work(pool: Pool) -> None:
        sent = [(b"key-%d" % index, b"value-%d" % index * 20) for index in range(2000)]
        async with Producer(pool, codec=codec, idempotence=idempotence) as producer:
            for key, value in sent:
                await producer.send(topic, value, key=key)
        records = await read_all(pool, topic)
        assert [(record.key, record.value) for record in records] == sent
        assert [record.offset for record in records] == list(range(2000))

    run(kavka, work)


def test_keys_headers_times_nulls_and_empty_values_come_back_as_they_were(kavka: Kavka) -> None:
    topic = kavka.topic()
    headers = (("trace", b"\x00\xff"), ("trace", b"again"), ("nothing", None))

    async def work(pool: Pool) -> None:
        async with Producer(pool) as producer:
            first = await producer.send_and_wait(topic, b"", key=b"k", timestamp=1_600_000_000_000, headers=headers)
            await producer.send_and_wait(topic, None, key=b"", timestamp=1_600_000_000_001)
        assert first == (topic, 0, 0, 1_600_000_000_000)
        assert await read_all(pool, topic) == [
            ConsumerRecord(topic, 0, 0, 1_600_000_000_000, b"k", b"", headers),
            ConsumerRecord(topic, 0, 1, 1_600_000_000_001, b"", None, ()),
        ]

    run(kavka, work)


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_every_kind_of_acknowledgement_delivers(kavka: Kavka, acks: object) -> None:
    topic = kavka.topic()

    async def work(pool: Pool) -> None:
        async with Producer(pool, acks=acks) as producer:  # type: ignore[arg-type]
            delivered = await producer.send_and_wait(topic, b"v")
        assert delivered.offset == (-1 if acks == 0 else 0)
        async with Consumer(pool) as consumer:
            await consumer.assign(topic)
            assert [record.value for record in await consumer.read(timeout_ms=10_000)] == [b"v"]

    run(kavka, work)


def test_keyed_records_go_where_every_kafka_client_sends_them(kavka: Kavka) -> None:
    topic = kavka.topic(partitions=5)

    async def work(pool: Pool) -> None:
        async with Producer(pool) as producer:
            for index in range(50):
                await producer.send(topic, b"v", key=b"%d" % index)
        for record in await read_all(pool, topic):
            assert record.key is not None
            assert record.partition == partition_for_key(record.key, 5)

    run(kavka, work)


def test_reading_begins_at_the_start_the_end_an_offset_or_a_time(kavka: Kavka) -> None:
    topic = kavka.topic()
    tp = TopicPartition(topic, 0)

    async def work(pool: Pool) -> None:
        async with Producer(pool) as producer:
            for index in range(10):
                await producer.send_and_wait(topic, b"%d" % index, timestamp=1_000_000 + index * 1000)
        async with Consumer(pool) as consumer:
            for place, first in (("start", 0), (7, 7), (At(1_004_000), 4), (At(1_004_001), 5)):
                await consumer.assign(topic, start=place)  # type: ignore[arg-type]
                assert [record.offset async for record in consumer.until_end()] == list(range(first, 10))
            for place in ("end", At(1_009_001)):
                await consumer.assign(topic, start=place)  # type: ignore[arg-type]
                assert consumer.position(tp) == 10
            assert await consumer.start_offsets(tp) == {tp: 0}
            assert await consumer.end_offsets(tp) == {tp: 10}

    run(kavka, work)


def test_offsets_are_found_by_time(kavka: Kavka) -> None:
    topic = kavka.topic()
    tp = TopicPartition(topic, 0)

    async def work(pool: Pool) -> None:
        async with Producer(pool, linger_ms=0) as producer:
            for time in (5000, 9000, 7000):
                await producer.send_and_wait(topic, b"v", timestamp=time)
        admin = Admin(pool)
        found = [(await admin.list_offsets({tp: time}))[tp] for time in (EARLIEST, LATEST, 6000, 9001, MAX_TIMESTAMP)]
        assert [each.offset for each in found] == [0, 3, 1, -1, 1]
        assert found[2].timestamp == 9000

    run(kavka, work)


def test_a_follower_gets_what_is_written_while_it_waits(kavka: Kavka) -> None:
    topic = kavka.topic()

    async def work(pool: Pool) -> None:
        async with Consumer(pool) as consumer, Producer(pool) as producer:
            await consumer.assign(topic, start="end")
            waiting = asyncio.ensure_future(consumer.read(timeout_ms=20_000))
            await asyncio.sleep(0.05)
            await producer.send_and_wait(topic, b"fresh")
            assert [record.value for record in await waiting] == [b"fresh"]

    run(kavka, work)


def test_an_offset_beyond_the_log_is_out_of_range(kavka: Kavka) -> None:
    topic = kavka.topic()

    async def work(pool: Pool) -> None:
        async with Consumer(pool) as consumer:
            await consumer.assign(topic, start=5)
            with pytest.raises(OffsetOutOfRange):
                await consumer.read(timeout_ms=10_000)
        async with Producer(pool) as producer:
            await producer.send_and_wait(topic, b"v")
        async with Consumer(pool, out_of_range="start") as consumer:
            await consumer.assign(topic, start=5)
            assert [record.offset for record in await consumer.read(timeout_ms=10_000)] == [0]

    run(kavka, work)


def test_deleted_records_move_the_start(kavka: Kavka) -> None:
    topic = kavka.topic()
    tp = TopicPartition(topic, 0)

    async def work(pool: Pool) -> None:
        async with Producer(pool) as producer:
            for index in range(10):
                await producer.send(topic, b"%d" % index)
        assert await Admin(pool).delete_records({tp: 4}) == {tp: 4}
        assert [record.offset for record in await read_all(pool, topic)] == [4, 5, 6, 7, 8, 9]

    run(kavka, work)


def test_small_fetches_and_large_records_arrive_whole(kavka: Kavka) -> None:
    topic = kavka.topic()
    values = [bytes([index]) * size for index, size in enumerate((10, 300_000, 1, 900_000, 50_000))]

    async def work(pool: Pool) -> None:
        async with Producer(pool, linger_ms=0) as producer:
            for value in values:
                await producer.send(topic, value)
        async with Consumer(pool, partition_bytes=1000, max_bytes=1000) as consumer:
            await consumer.assign(topic)
            assert [record.value async for record in consumer.until_end()] == values

    run(kavka, work)


def test_a_batch_larger_than_the_topic_allows_is_split_and_a_record_larger_is_refused(kavka: Kavka) -> None:
    topic = kavka.topic(configs={"max.message.bytes": "2000"})

    async def work(pool: Pool) -> None:
        async with Producer(pool, linger_ms=50) as producer:
            deliveries = [await producer.send(topic, b"%02d" % index * 250) for index in range(12)]
            assert [(await delivery).offset for delivery in deliveries] == list(range(12))
            with pytest.raises(MessageTooLarge):
                await producer.send_and_wait(topic, b"x" * 3000)
            assert (await producer.send_and_wait(topic, b"after")).offset == 12
        assert len(await read_all(pool, topic)) == 13

    run(kavka, work)


def test_a_compacted_topic_refuses_records_without_a_key(kavka: Kavka) -> None:
    topic = kavka.topic(configs={"cleanup.policy": "compact"})

    async def work(pool: Pool) -> None:
        async with Producer(pool) as producer:
            with pytest.raises(InvalidRecord):
                await producer.send_and_wait(topic, b"v")
            assert (await producer.send_and_wait(topic, b"v", key=b"k")).offset == 0

    run(kavka, work)


def test_append_time_is_the_brokers(kavka: Kavka) -> None:
    topic = kavka.topic(configs={"message.timestamp.type": "LogAppendTime"})

    async def work(pool: Pool) -> None:
        async with Producer(pool) as producer:
            delivered = await producer.send_and_wait(topic, b"v", timestamp=5)
        (record,) = await read_all(pool, topic)
        assert record.timestamp == delivered.timestamp > 1_700_000_000_000

    run(kavka, work)


def test_a_topic_may_be_created_by_its_first_record(kavka: Kavka) -> None:
    topic = kavka.topic() + "-auto"

    async def work(pool: Pool) -> None:
        async with Producer(pool) as producer:
            assert (await producer.send_and_wait(topic, b"v")).offset == 0
        await Admin(pool).delete_topic(topic)

    run(kavka, work)


def test_a_topic_that_is_not_there_is_an_error(kavka: Kavka) -> None:
    async def work(pool: Pool) -> None:
        async with Consumer(pool) as consumer:
            with pytest.raises(UnknownTopicOrPartition):
                await consumer.assign("no-such-topic")

    run(kavka, work)


def test_many_producers_and_a_consumer_share_one_pool(kavka: Kavka) -> None:
    topic = kavka.topic(partitions=4)

    async def write(pool: Pool, name: int) -> None:
        async with Producer(pool, linger_ms=1) as producer:
            for index in range(500):
                await producer.send(topic, b"%d-%d" % (name, index), key=b"%d" % name)

    async def work(pool: Pool) -> None:
        await asyncio.gather(*(write(pool, name) for name in range(8)))
        records = await read_all(pool, topic)
        for name in range(8):
            mine = [record.value for record in records if record.key == b"%d" % name]
            assert mine == [b"%d-%d" % (name, index) for index in range(500)]

    run(kavka, work)
