"""kafka-python as it is, against a real node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.errors import (
    InvalidPartitionsError,
    InvalidRecordError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

WAIT_S = 20.0


@pytest.fixture
def admin(kavka: Any) -> Iterator[KafkaAdminClient]:
    """An admin client."""
    client = KafkaAdminClient(bootstrap_servers=kavka.bootstrap)
    yield client
    client.close()


@pytest.fixture
def create(admin: KafkaAdminClient, topic_name: str) -> Iterator[Callable[..., str]]:
    """Makes the test's topic; it is deleted in the end."""

    def make(partitions: int = 1, **configs: str) -> str:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": named}
        admin.create_topics({topic_name: wanted}, wait_for_metadata=True)
        return topic_name

    yield make
    admin.delete_topics([topic_name], raise_errors=False)


@pytest.fixture
def produce(kavka: Any) -> Callable[..., list[int]]:
    """Writes samples and returns their offsets, or raises the first error."""

    def write(topic: str, samples: list[Any], partition: int = 0, **configs: Any) -> list[int]:
        producer = KafkaProducer(bootstrap_servers=kavka.bootstrap, linger_ms=10, **configs)
        try:
            sent = [
                producer.send(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    headers=list(sample.headers),
                    partition=partition,
                    timestamp_ms=sample.timestamp,
                )
                for sample in samples
            ]
            producer.flush(WAIT_S)
            return [future.get(WAIT_S).offset for future in sent]
        finally:
            producer.close()

    return write


@pytest.fixture
def consumer(kavka: Any) -> Iterator[Callable[..., KafkaConsumer]]:
    """Opens consumers, and closes them in the end."""
    opened: list[KafkaConsumer] = []

    def open_one(**configs: Any) -> KafkaConsumer:
        opened.append(KafkaConsumer(bootstrap_servers=kavka.bootstrap, group_id=None, **configs))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    """So many records of what is assigned."""
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} records"
        for records in consumer.poll(timeout_ms=200).values():
            found += records
    return found


def fields(record: Any) -> tuple[Any, ...]:
    """What a sample is compared with."""
    return record.key, record.value, tuple(record.headers), record.timestamp


def expected(sample: Any) -> tuple[Any, ...]:
    """What a sample looks like when it was read."""
    return sample.key, sample.value, sample.headers, sample.timestamp


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_produced_is_consumed(
    create: Any, produce: Any, consumer: Any, samples: Any, codec: str | None, idempotent: bool
) -> None:
    topic = create()
    written = produce(topic, samples, compression_type=codec, enable_idempotence=idempotent)
    assert written == list(range(100))
    one = consumer()
    one.assign([TopicPartition(topic, 0)])
    one.seek_to_beginning()
    found = read(one, 100)
    assert [record.offset for record in found] == list(range(100))
    assert [fields(record) for record in found] == [expected(sample) for sample in samples]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_is_served(create: Any, produce: Any, consumer: Any, samples: Any, acks: int | str) -> None:
    topic = create()
    produce(topic, samples, acks=acks, enable_idempotence=False)
    partition = TopicPartition(topic, 0)
    deadline = time.monotonic() + WAIT_S
    one = consumer()
    while one.end_offsets([partition])[partition] != 100:
        assert time.monotonic() < deadline  # acks 0 promises nothing yet


def test_a_consumer_starts_at_the_end(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    partition = TopicPartition(topic, 0)
    one = consumer()
    one.assign([partition])
    one.seek_to_end()
    assert one.position(partition) == 100
    produce(topic, samples[:3])
    assert [record.offset for record in read(one, 3)] == [100, 101, 102]


def test_a_consumer_starts_at_an_offset(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    one = consumer()
    one.assign([TopicPartition(topic, 0)])
    one.seek(TopicPartition(topic, 0), 42)
    assert [record.offset for record in read(one, 58)] == list(range(42, 100))


def test_a_consumer_starts_at_a_time(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    partition = TopicPartition(topic, 0)
    one = consumer()
    one.assign([partition])
    at = one.offsets_for_times({partition: samples[36].timestamp - 1})[partition]
    assert (at.offset, at.timestamp) == (36, samples[36].timestamp)
    one.seek(partition, at.offset)
    assert len(read(one, 64)) == 64
    assert one.offsets_for_times({partition: samples[-1].timestamp + 1})[partition] is None


def test_an_offset_out_of_range_follows_the_reset_policy(
    create: Any, produce: Any, consumer: Any, samples: Any
) -> None:
    topic = create()
    produce(topic, samples)
    one = consumer(auto_offset_reset="earliest")
    one.assign([TopicPartition(topic, 0)])
    one.seek(TopicPartition(topic, 0), 5000)
    assert [record.offset for record in read(one, 100)] == list(range(100))


def test_offsets_of_partitions(create: Any, produce: Any, consumer: Any, samples: Any) -> None:
    topic = create(partitions=2)
    produce(topic, samples, partition=1)
    one = consumer()
    assert one.partitions_for_topic(topic) == {0, 1}
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert one.beginning_offsets(both) == {both[0]: 0, both[1]: 0}
    assert one.end_offsets(both) == {both[0]: 0, both[1]: 100}


def test_a_message_over_the_limit_is_refused(create: Any, produce: Any, samples: Any) -> None:
    topic = create(max_message_bytes="70")
    with pytest.raises(MessageSizeTooLargeError):
        produce(topic, samples[:1])


def test_a_null_key_on_a_compacted_topic_is_refused(create: Any, produce: Any, samples: Any) -> None:
    topic = create(cleanup_policy="compact")
    with pytest.raises(InvalidRecordError):
        produce(topic, [samples[4]])


def test_topics_are_created_described_and_deleted(admin: KafkaAdminClient, topic_name: str) -> None:
    wanted = {topic_name: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "60000"}}}
    admin.create_topics(wanted, validate_only=True)
    assert topic_name not in admin.list_topics()
    admin.create_topics(wanted, wait_for_metadata=True)
    (described,) = admin.describe_topics([topic_name])
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2]
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(wanted)
    paged = admin.describe_topic_partitions([topic_name], response_partition_limit=2)
    assert paged["next_cursor"]["partition_index"] == 2
    admin.delete_topics([topic_name])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic_name])


def test_partitions_are_added(admin: KafkaAdminClient, create: Any) -> None:
    topic = create(partitions=2)
    admin.create_partitions({topic: 5})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 3})
    deadline = time.monotonic() + WAIT_S
    while len(admin.describe_topics([topic])[0]["partitions"]) != 5:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("incremental", [True, False])
def test_configs_are_described_and_changed(admin: KafkaAdminClient, create: Any, incremental: bool) -> None:
    topic = create(retention_ms="60000")

    def described() -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = admin.describe_configs([resource], config_filter="all", include_synonyms=True)
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    assert described()["retention.ms"] == "60000"
    assert described()["segment.bytes"] == "1073741824"
    changes = {"retention.ms": "5000", "segment.bytes": "1048576"}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=changes)], incremental=incremental)
    assert described()["retention.ms"] == "5000"
    assert described()["segment.bytes"] == "1048576"
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=["retention.ms"])])
    assert described()["retention.ms"] == "604800000"
    assert described()["segment.bytes"] == "1048576"


def test_a_list_config_is_appended_to(admin: KafkaAdminClient, create: Any) -> None:
    topic = create(cleanup_policy="compact")
    change = {"cleanup.policy": (AlterConfigOp.APPEND, "delete")}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=change)])
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
    assert found["cleanup.policy"]["value"] == "compact,delete"


def test_a_wrong_config_is_refused(admin: KafkaAdminClient, create: Any) -> None:
    topic = create()
    change = {"retention.ms": "soon"}
    answer = admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=change)])
    assert "InvalidConfiguration" in str(answer["topic"][topic])


def test_resources_with_configs_are_listed(admin: KafkaAdminClient, create: Any) -> None:
    topic = create(retention_ms="60000")
    assert topic in admin.list_config_resources(["TOPIC"])["topic"]


def test_records_are_deleted(admin: KafkaAdminClient, create: Any, produce: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 30})[partition]["low_watermark"] == 30
    assert admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 30


def test_offsets_are_listed(admin: KafkaAdminClient, create: Any, produce: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    partition = TopicPartition(topic, 0)
    for spec, offset in [
        (OffsetSpec.EARLIEST, 0),
        (OffsetSpec.LATEST, 100),
        (OffsetSpec.MAX_TIMESTAMP, 99),
        (OffsetSpec.EARLIEST_LOCAL, 0),
        (samples[50].timestamp, 50),
    ]:
        assert admin.list_partition_offsets({partition: spec})[partition].offset == offset


def test_log_dirs_are_described(admin: KafkaAdminClient, create: Any, produce: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples)
    (broker,) = admin.describe_log_dirs({topic: [0]})
    (folder,) = broker["log_dirs"]
    assert folder["topics"][0]["partitions"][0]["partition_size"] > 1000


def test_producers_are_described(admin: KafkaAdminClient, create: Any, produce: Any, samples: Any) -> None:
    topic = create()
    produce(topic, samples, enable_idempotence=True)
    partition = TopicPartition(topic, 0)
    (producer,) = admin.describe_producers([partition])[partition].active_producers
    assert producer.last_sequence == 99


def test_the_cluster_is_described(admin: KafkaAdminClient, kavka: Any) -> None:
    described = admin.describe_cluster()
    assert [f"{broker['host']}:{broker['port']}" for broker in described["brokers"]] == [kavka.bootstrap]
    assert admin.describe_features()["metadata.version"]["finalized"][1] >= 25
    (metadata,) = admin.describe_metadata_quorum()["topics"]
    assert metadata["topic_name"] == "__cluster_metadata"
    assert metadata["partitions"][0]["leader_id"] == described["controller_id"]


def test_a_small_fetch_limit_stops_no_partition(create: Any, consumer: Any, kavka: Any) -> None:
    topic = create(10)
    producer = KafkaProducer(bootstrap_servers=kavka.bootstrap)
    for partition in range(10):
        producer.send(topic, b"v" * 400, partition=partition)
    producer.close()
    reader = consumer(fetch_max_bytes=500)
    reader.assign([TopicPartition(topic, partition) for partition in range(10)])
    reader.seek_to_beginning()
    found: set[int] = set()
    ends = time.monotonic() + WAIT_S
    while len(found) < 10 and time.monotonic() < ends:
        found |= {record.partition for rows in reader.poll(500).values() for record in rows}
    assert found == set(range(10))
