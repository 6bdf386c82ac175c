"""aiokafka as it is, against a real node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, KafkaError, MessageSizeTooLargeError

WAIT_S = 20.0
OK, UNKNOWN_TOPIC, TOPIC_ALREADY_EXISTS, INVALID_CONFIG = 0, 3, 36, 40


class Clients:
    """Opens clients of one node in one event loop; what was opened is closed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._closers: list[Callable[[], Awaitable[None]]] = []

    async def admin(self) -> AIOKafkaAdminClient:
        """A started admin client."""
        client = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        self._closers.append(client.close)
        await client.start()
        return client

    async def producer(self, **configs: Any) -> AIOKafkaProducer:
        """A started producer."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=10, **configs)
        self._closers.append(producer.stop)
        await producer.start()
        return producer

    async def consumer(self, *partitions: TopicPartition, **configs: Any) -> AIOKafkaConsumer:
        """A started consumer of these partitions."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None, **configs)
        self._closers.append(consumer.stop)
        await consumer.start()
        consumer.assign(list(partitions))
        return consumer

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> TopicPartition:
        """A new topic; returns its first partition."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        answer = await (await self.admin()).create_topics([NewTopic(name, partitions, 1, topic_configs=named)])
        assert [row[1] for row in answer.topic_errors] == [OK]
        return TopicPartition(name, 0)

    async def write(self, at: TopicPartition, samples: list[Any], **configs: Any) -> list[int]:
        """Write samples; returns their offsets."""
        producer = await self.producer(**configs)
        sent = [
            await producer.send(
                at.topic,
                value=sample.value,
                key=sample.key,
                headers=list(sample.headers),
                partition=at.partition,
                timestamp_ms=sample.timestamp,
            )
            for sample in samples
        ]
        told = await asyncio.wait_for(asyncio.gather(*sent), WAIT_S)
        return [-1 if one is None else one.offset for one in told]

    async def close(self) -> None:
        """Close everything, the newest first."""
        for close in reversed(self._closers):
            await close()


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    """So many records of what is assigned."""
    return [await asyncio.wait_for(consumer.getone(), WAIT_S) for _ in range(count)]


@pytest.fixture
def run(kavka: Any) -> Callable[[Callable[[Clients], Coroutine[Any, Any, None]]], None]:
    """Runs a test's coroutine function with clients."""

    def in_loop(test: Callable[[Clients], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            clients = Clients(kavka.bootstrap)
            try:
                await test(clients)
            finally:
                await clients.close()

        asyncio.run(whole())

    return in_loop


def fields(record: Any) -> tuple[Any, ...]:
    """What a sample is compared with."""
    return record.key, record.value, tuple(record.headers), record.timestamp


def expected(sample: Any) -> tuple[Any, ...]:
    """What a sample looks like when it was read."""
    return sample.key, sample.value, sample.headers, sample.timestamp


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_produced_is_consumed(
    run: Any, topic_name: str, samples: Any, codec: str | None, idempotent: bool
) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        written = await clients.write(at, samples, compression_type=codec, enable_idempotence=idempotent)
        assert written == list(range(100))
        consumer = await clients.consumer(at)
        await consumer.seek_to_beginning()
        found = await read(consumer, 100)
        assert [record.offset for record in found] == list(range(100))
        assert [fields(record) for record in found] == [expected(sample) for sample in samples]

    run(test)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_is_served(run: Any, topic_name: str, samples: Any, acks: int | str) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        await clients.write(at, samples, acks=acks)
        consumer = await clients.consumer(at)
        deadline = time.monotonic() + WAIT_S
        while (await consumer.end_offsets([at]))[at] != 100:
            assert time.monotonic() < deadline  # acks 0 promises nothing yet

    run(test)


def test_a_consumer_starts_at_the_end(run: Any, topic_name: str, samples: Any) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        await clients.write(at, samples)
        consumer = await clients.consumer(at)
        await consumer.seek_to_end()
        assert await consumer.position(at) == 100
        await clients.write(at, samples[:3])
        assert [record.offset for record in await read(consumer, 3)] == [100, 101, 102]

    run(test)


def test_a_consumer_starts_at_an_offset(run: Any, topic_name: str, samples: Any) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        await clients.write(at, samples)
        consumer = await clients.consumer(at)
        consumer.seek(at, 42)
        assert [record.offset for record in await read(consumer, 58)] == list(range(42, 100))

    run(test)


def test_a_consumer_starts_at_a_time(run: Any, topic_name: str, samples: Any) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        await clients.write(at, samples)
        consumer = await clients.consumer(at)
        found = (await consumer.offsets_for_times({at: samples[36].timestamp - 1}))[at]
        assert (found.offset, found.timestamp) == (36, samples[36].timestamp)
        consumer.seek(at, found.offset)
        assert len(await read(consumer, 64)) == 64
        assert (await consumer.offsets_for_times({at: samples[-1].timestamp + 1}))[at] is None

    run(test)


def test_an_offset_out_of_range_follows_the_reset_policy(run: Any, topic_name: str, samples: Any) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        await clients.write(at, samples)
        consumer = await clients.consumer(at, auto_offset_reset="earliest")
        consumer.seek(at, 5000)
        assert [record.offset for record in await read(consumer, 100)] == list(range(100))

    run(test)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_small_fetches_make_progress(run: Any, topic_name: str, samples: Any, isolation: str) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        await clients.write(at, samples, max_batch_size=200)
        sizes = {"max_partition_fetch_bytes": 60, "fetch_max_bytes": 60, "isolation_level": isolation}
        consumer = await clients.consumer(at, **sizes)
        await consumer.seek_to_beginning()
        assert [record.offset for record in await read(consumer, 100)] == list(range(100))

    run(test)


def test_a_message_over_the_limit_is_refused(run: Any, topic_name: str, samples: Any) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name, max_message_bytes="90")
        with pytest.raises(MessageSizeTooLargeError):
            await clients.write(at, samples[:1])

    run(test)


def test_a_null_key_on_a_compacted_topic_is_refused(run: Any, topic_name: str, samples: Any) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name, cleanup_policy="compact")
        with pytest.raises(KafkaError):
            await clients.write(at, [samples[4]])
        assert await clients.write(at, [samples[0]]) == [0]

    run(test)


def test_topics_are_created_described_and_deleted(run: Any, topic_name: str) -> None:
    async def test(clients: Clients) -> None:
        admin = await clients.admin()
        wanted = NewTopic(topic_name, 3, 1, topic_configs={"retention.ms": "60000"})
        assert (await admin.create_topics([wanted], validate_only=True)).topic_errors[0][1] == OK
        assert topic_name not in await admin.list_topics()
        assert (await admin.create_topics([wanted])).topic_errors[0][1] == OK
        assert (await admin.create_topics([wanted])).topic_errors[0][1] == TOPIC_ALREADY_EXISTS
        (described,) = await admin.describe_topics([topic_name])
        assert sorted(partition["partition"] for partition in described["partitions"]) == [0, 1, 2]
        assert topic_name in await admin.list_topics()
        assert [code for _, code in (await admin.delete_topics([topic_name])).topic_error_codes] == [OK]
        gone = await admin.delete_topics([topic_name])
        assert [code for _, code in gone.topic_error_codes] == [UNKNOWN_TOPIC]

    run(test)


def test_partitions_are_added(run: Any, topic_name: str) -> None:
    async def test(clients: Clients) -> None:
        await clients.topic(topic_name)
        admin = await clients.admin()
        assert (await admin.create_partitions({topic_name: NewPartitions(4)})).topic_errors[0][1] == OK
        with pytest.raises(InvalidPartitionsError):
            await admin.create_partitions({topic_name: NewPartitions(2)})

    run(test)


def test_configs_are_described_and_changed(run: Any, topic_name: str) -> None:
    async def test(clients: Clients) -> None:
        await clients.topic(topic_name, retention_ms="60000")
        admin = await clients.admin()

        async def described() -> dict[str, str]:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic_name)])
            (resource,) = answer.resources
            assert resource[0] == OK
            return {entry[0]: entry[1] for entry in resource[4]}

        assert (await described())["retention.ms"] == "60000"
        change = ConfigResource(ConfigResourceType.TOPIC, topic_name, configs={"segment.bytes": "1048576"})
        (answer,) = await admin.alter_configs([change])
        assert answer.resources[0][0] == OK
        assert (await described())["segment.bytes"] == "1048576"
        assert (await described())["retention.ms"] == "604800000"
        wrong = ConfigResource(ConfigResourceType.TOPIC, topic_name, configs={"segment.bytes": "large"})
        (answer,) = await admin.alter_configs([wrong])
        assert answer.resources[0][0] == INVALID_CONFIG

    run(test)


def test_records_are_deleted(run: Any, topic_name: str, samples: Any) -> None:
    async def test(clients: Clients) -> None:
        at = await clients.topic(topic_name)
        await clients.write(at, samples)
        admin = await clients.admin()
        assert await admin.delete_records({at: RecordsToDelete(before_offset=30)}) == {at: 30}
        consumer = await clients.consumer(at)
        assert await consumer.beginning_offsets([at]) == {at: 30}
        assert await consumer.end_offsets([at]) == {at: 100}

    run(test)


def test_the_cluster_is_described(run: Any) -> None:
    async def test(clients: Clients) -> None:
        described = await (await clients.admin()).describe_cluster()
        assert [f"{broker['host']}:{broker['port']}" for broker in described["brokers"]] == [clients.bootstrap]
        assert described["controller_id"] == described["brokers"][0]["node_id"]

    run(test)


def test_the_coordinator_of_a_group_is_the_node(run: Any) -> None:
    async def test(clients: Clients) -> None:
        admin = await clients.admin()
        described = await admin.describe_cluster()
        assert await admin.find_coordinator("some-group") == described["brokers"][0]["node_id"]

    run(test)
