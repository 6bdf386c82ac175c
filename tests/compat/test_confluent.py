"""confluent-kafka (librdkafka) as it is, against a real node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    AcknowledgeType,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

WAIT_S = 20.0


@pytest.fixture
def admin(kavka: Any) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": kavka.bootstrap})


@pytest.fixture
def create(admin: AdminClient, topic_name: str) -> Iterator[Callable[..., str]]:
    """Makes the test's topic; it is deleted in the end."""

    def make(partitions: int = 1, **configs: str) -> str:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(topic_name, partitions, 1, config=named)])[topic_name].result(WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while topic_name not in admin.list_topics(timeout=WAIT_S).topics:
            assert time.monotonic() < deadline
        return topic_name

    yield make
    admin.delete_topics([topic_name])[topic_name].exception(WAIT_S)


@pytest.fixture
def produce(kavka: Any) -> Callable[..., list[Message]]:
    """Writes samples and returns the acknowledged messages, or raises the first error."""

    def write(topic: str, samples: list[Any], partition: int = 0, **configs: Any) -> list[Message]:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        producer = Producer({"bootstrap.servers": kavka.bootstrap, "linger.ms": 10, **settings})
        told: list[tuple[KafkaError | None, Message]] = []
        for sample in samples:
            producer.produce(
                topic,
                key=sample.key,
                value=sample.value,
                headers=list(sample.headers),
                timestamp=sample.timestamp,
                partition=partition,
                on_delivery=lambda error, message: told.append((error, message)),
            )
        assert producer.flush(WAIT_S) == 0
        for error, _ in told:
            if error is not None:
                raise KafkaException(error)
        return [message for _, message in told]

    return write


@pytest.fixture
def consumer(kavka: Any) -> Iterator[Callable[..., Consumer]]:
    """Opens consumers, and closes them in the end."""
    opened: list[Consumer] = []

    def open_one(**configs: Any) -> Consumer:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        given = {"bootstrap.servers": kavka.bootstrap, "group.id": "unused", "enable.auto.commit": False}
        opened.append(Consumer({**given, "enable.partition.eof": True, **settings}))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def read(consumer: Consumer, *partitions: TopicPartition) -> list[Message]:
    """Everything from where the partitions say up to their ends."""
    consumer.assign(list(partitions))
    found: list[Message] = []
    at_end = 0
    deadline = time.monotonic() + WAIT_S
    while at_end < len(partitions):
        assert time.monotonic() < deadline, f"only {len(found)} records"
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end += 1
    return found


def fields(message: Message) -> tuple[Any, ...]:
    """What a sample is compared with."""
    return message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1]


def expected(sample: Any) -> tuple[Any, ...]:
    """What a sample looks like when it was read."""
    return sample.key, sample.value, sample.headers, sample.timestamp


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_produced_is_consumed(
    create: Any, produce: Any, consumer: Any, samples: Any, codec: str, idempotent: bool
) -> None:
    topic = create()
    written = produce(topic, samples, compression_type=codec, enable_idempotence=idempotent)
    assert [message.offset() for message in written] == list(range(100))
    found = read(consumer(), TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert [message.offset() for message in found] == list(range(100))
    assert [fields(message) for message in found] == [expected(sample) for sample in samples]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_acks_setting_is_served(create: Any, produce: Any, consumer: Any, samples: Any, acks: int) -> None:
    topic = create()
    produce(topic, samples, acks=acks)
    deadline = time.monotonic() + WAIT_S
    while consumer().get_watermark_offsets(TopicPartition(topic, 0), timeout=5) != (0, 100):
        assert time.monotonic() < deadline  # acks 0 promises nothing yet


def test_a_consumer_starts_at_the_end(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    one = consumer()
    assert read(one, TopicPartition(topic, 0, OFFSET_END)) == []
    produce(topic, samples[:3])
    assert [message.offset() for message in read(one, TopicPartition(topic, 0, 100))] == [100, 101, 102]


def test_a_consumer_starts_at_an_offset(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    found = read(consumer(), TopicPartition(topic, 0, 42))
    assert [message.offset() for message in found] == list(range(42, 100))


def test_a_consumer_starts_at_a_time(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples, batch_num_messages=10)
    one = consumer()
    (at,) = one.offsets_for_times([TopicPartition(topic, 0, samples[36].timestamp - 1)], timeout=WAIT_S)
    assert at.offset == 36
    assert len(read(one, at)) == 64
    (late,) = one.offsets_for_times([TopicPartition(topic, 0, samples[-1].timestamp + 1)], timeout=WAIT_S)
    assert late.offset == OFFSET_END


def test_an_offset_out_of_range_follows_the_reset_policy(
    create: Any, produce: Any, consumer: Any, samples: Any
) -> None:
    topic = create()
    produce(topic, samples)
    found = read(consumer(auto_offset_reset="earliest"), TopicPartition(topic, 0, 5000))
    assert [message.offset() for message in found] == list(range(100))


def test_several_partitions_are_read_together(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create(partitions=3)
    for partition in range(3):
        produce(topic, samples, partition=partition)
    found = read(consumer(), *(TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(3)))
    for number in range(3):
        assert [message.offset() for message in found if message.partition() == number] == list(range(100))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_small_fetches_make_progress(create: Any, produce: Any, consumer: Any, samples: Any, isolation: str) -> None:
    topic = create()
    produce(topic, samples, batch_num_messages=5)
    small = consumer(fetch_message_max_bytes=60, isolation_level=isolation)
    assert len(read(small, TopicPartition(topic, 0, OFFSET_BEGINNING))) == 100


def test_log_append_time_is_the_brokers(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create(message_timestamp_type="LogAppendTime")
    before = time.time() * 1000 - 1000
    produce(topic, samples[:5])
    found = read(consumer(), TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert all(message.timestamp()[0] == 2 for message in found)  # TIMESTAMP_LOG_APPEND_TIME
    assert all(message.timestamp()[1] > before for message in found)


def test_a_message_over_the_limit_is_refused(create: Any, produce: Any, samples: Any) -> None:
    topic = create(max_message_bytes="100")
    with pytest.raises(KafkaException) as refused:
        produce(topic, samples)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_null_key_on_a_compacted_topic_is_refused(create: Any, produce: Any, samples: Any) -> None:
    topic = create(cleanup_policy="compact")
    with pytest.raises(KafkaException) as refused:
        produce(topic, [samples[4]])
    assert refused.value.args[0].code() == KafkaError.INVALID_RECORD


def test_an_unknown_topic_is_created_when_written_to(
    admin: AdminClient, produce: Any, samples: Any, topic_name: str
) -> None:
    assert len(produce(topic_name, samples[:1])) == 1
    assert topic_name in admin.list_topics(timeout=WAIT_S).topics
    admin.delete_topics([topic_name])[topic_name].result(WAIT_S)


def test_topics_are_created_described_and_deleted(admin: AdminClient, topic_name: str) -> None:
    wanted = NewTopic(topic_name, 3, 1, config={"retention.ms": "60000"})
    admin.create_topics([wanted], validate_only=True)[topic_name].result(WAIT_S)
    assert topic_name not in admin.list_topics(timeout=WAIT_S).topics
    admin.create_topics([wanted])[topic_name].result(WAIT_S)
    metadata = admin.list_topics(topic_name, timeout=WAIT_S).topics[topic_name]
    assert sorted(metadata.partitions) == [0, 1, 2]
    with pytest.raises(KafkaException) as again:
        admin.create_topics([wanted])[topic_name].result(WAIT_S)
    assert again.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic_name])[topic_name].result(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while topic_name in admin.list_topics(timeout=WAIT_S).topics:
        assert time.monotonic() < deadline
    with pytest.raises(KafkaException) as gone:
        admin.delete_topics([topic_name])[topic_name].result(WAIT_S)
    assert gone.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_partitions_are_added(admin: AdminClient, create: Any) -> None:
    topic = create(partitions=2)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    assert len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 5
    with pytest.raises(KafkaException) as fewer:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_S)
    assert fewer.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_configs_are_described_and_changed(admin: AdminClient, create: Any) -> None:
    topic = create(retention_ms="60000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def described() -> dict[str, ConfigEntry]:
        found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(WAIT_S)
        return found

    assert described()["retention.ms"].value == "60000"
    assert described()["segment.bytes"].is_default
    change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change, policy])
    admin.incremental_alter_configs([changed])[changed].result(WAIT_S)
    assert described()["retention.ms"].value == "5000"
    assert described()["cleanup.policy"].value == "delete,compact"
    replaced = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "1048576"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        changes = admin.alter_configs([replaced])
    changes[replaced].result(WAIT_S)
    assert described()["segment.bytes"].value == "1048576"
    assert described()["retention.ms"].value == "604800000"
    wrong = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    refused = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[wrong])
    with pytest.raises(KafkaException) as invalid:
        admin.incremental_alter_configs([refused])[refused].result(WAIT_S)
    assert invalid.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_records_are_deleted(admin: AdminClient, create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    partition = TopicPartition(topic, 0, 30)
    assert admin.delete_records([partition])[partition].result(WAIT_S).low_watermark == 30
    found = read(consumer(), TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert [message.offset() for message in found] == list(range(30, 100))


def test_offsets_are_listed(admin: AdminClient, create: Any, produce: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    partition = TopicPartition(topic, 0)
    for spec, offset in [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 100),
        (OffsetSpec.max_timestamp(), 99),
        (OffsetSpec.for_timestamp(samples[50].timestamp), 50),
    ]:
        answer = admin.list_offsets({partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        assert answer[partition].result(WAIT_S).offset == offset


def test_the_cluster_is_described(admin: AdminClient, kavka: Any) -> None:
    described = admin.describe_cluster().result(WAIT_S)
    assert [f"{node.host}:{node.port}" for node in described.nodes] == [kavka.bootstrap]
    assert described.cluster_id == admin.list_topics(timeout=WAIT_S).cluster_id
    assert described.controller.id == described.nodes[0].id


def test_topics_are_described(admin: AdminClient, create: Any) -> None:
    from confluent_kafka import TopicCollection

    topic = create(partitions=2)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(WAIT_S)
    assert [partition.id for partition in described.partitions] == [0, 1]
    for partition in described.partitions:
        assert [node.id for node in partition.replicas] == [node.id for node in partition.isr] == [partition.leader.id]


def test_a_share_consumer_takes_releases_and_accepts(
    kavka: Any, admin: AdminClient, create: Any, produce: Any, samples: Any
) -> None:
    topic = create()
    produce(topic, samples)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([group]).values():
        future.result(WAIT_S)
    settings = {
        "bootstrap.servers": kavka.bootstrap,
        "group.id": topic,
        "share.acknowledgement.mode": "explicit",
    }
    consumer = ShareConsumer(settings)
    try:
        consumer.subscribe([topic])
        seen: dict[int, int] = {}
        accepted: set[int] = set()
        deadline = time.monotonic() + 2 * WAIT_S
        while len(accepted) < len(samples) and time.monotonic() < deadline:
            for message in consumer.poll(timeout=1.0):
                assert message.error() is None
                offset = message.offset()
                seen[offset] = seen.get(offset, 0) + 1
                if offset % 2 and seen[offset] == 1:
                    consumer.acknowledge(message, AcknowledgeType.RELEASE)
                else:
                    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                    accepted.add(offset)
            consumer.commit_sync()
        assert accepted == set(range(len(samples)))
        assert seen == {offset: 1 + offset % 2 for offset in range(len(samples))}
    finally:
        consumer.close()
