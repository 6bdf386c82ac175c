"""Topics that take only records whose schemas are registered, with Confluent's producer and serializers."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.component.test_registry import order_class

from kavka.client import Pool
from kavka.client.admin_configs import ConfigResource
from kavka.client.blocking import Client
from kavka.model.errors import InvalidConfig
from kavka.protocol.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kavka.records.batch import Record
from kavka.records.builder import build_batch
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import (
        Schema,
        SchemaRegistryClient,
        header_schema_id_serializer,
        record_subject_name_strategy,
        topic_record_subject_name_strategy,
    )
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

VALUES = {"confluent.value.schema.validation": "true"}
KEYS = {"confluent.key.schema.validation": "true"}
PACKAGE = "io.confluent.kafka.serializers.subject."
BIG = 1 << 62  # Confluent's take no message of less than six bytes, not even if its frame is in a header
INVALID_RECORD = KafkaError.INVALID_RECORD

_numbers = count()


def order(name: str = "Order", **more: Any) -> str:
    fields = [{"name": "id", "type": "long"}]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": fields, **more})


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0", "message.max.bytes": "20000000"}) as running:
        yield running


@pytest.fixture(scope="module")
def client(node: Cluster) -> Iterator[Client]:
    with Client(node.bootstrap) as client:
        yield client


@pytest.fixture
def registry(node: Cluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.registry}) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> Callable[..., str]:
    def create(**configs: str) -> str:
        name = f"checked-{next(_numbers)}"
        client.admin.create_topic(name, partitions=1, configs=configs)
        return name

    return create


def sent(node: Cluster, topic: str, *records: dict[str, Any], **config: Any) -> list[int | None]:
    """What became of each record: the code of an error, or None."""
    found: list[int | None] = [-1] * len(records)
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 50, **config})

    def tell(index: int) -> Callable[[Any, Any], None]:
        def told(error: Any, _: Any) -> None:
            found[index] = None if error is None else error.code()

        return told

    for index, record in enumerate(records):
        producer.produce(topic, **record, on_delivery=tell(index))
    assert producer.flush(60) == 0
    return found


def framed(id_: int, content: bytes = b"x") -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + content


def values_of(client: Client, topic: str) -> list[bytes | None]:
    with client.consumer(topic) as consumer:
        return [record.value for record in consumer.until_end()]


def test_what_confluents_serializer_writes_is_taken(
    node: Cluster, client: Client, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name = topic(**VALUES)
    write = AvroSerializer(registry, order())
    values = [write({"id": number}, SerializationContext(name, MessageField.VALUE)) for number in range(100)]
    assert sent(node, name, *({"value": value} for value in values)) == [None] * 100
    assert values_of(client, name) == values


@pytest.mark.parametrize("value", [b"raw", b"", b"\0\0\0\0", b"\x01\0\0\0\x01", b'{"id": 1}', framed(4_000_000)])
def test_what_names_no_registered_schema_is_refused(
    node: Cluster, client: Client, topic: Callable[..., str], value: bytes
) -> None:
    name = topic(**VALUES)
    assert sent(node, name, {"value": value}) == [INVALID_RECORD]
    assert values_of(client, name) == []


def test_the_answer_names_the_records_that_are_wrong(
    node: Cluster, client: Client, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name = topic(**VALUES)
    right = registry.register_schema(f"{name}-value", Schema(order(doc=name), "AVRO"))
    values = [framed(right), b"raw", framed(right), framed(right + 1_000_000)]
    topic_id = client.admin.describe_topic(name).id
    batch = build_batch([Record(at, 1_700_000_000_000, None, value) for at, value in enumerate(values)])

    async def ask() -> Any:
        partition = PartitionProduceData(index=0, records=batch)
        data = [TopicProduceData(name=name, topic_id=topic_id, partition_data=[partition])]
        pool = Pool(node.bootstrap)
        try:
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
            return (await pool.request(request, ProduceResponse)).responses[0].partition_responses[0]
        finally:
            await pool.close()

    answer = asyncio.run(ask())
    assert (answer.error_code, answer.base_offset) == (INVALID_RECORD, -1)
    assert [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors] == [
        (1, "the value does not begin with the id of a schema, and no header has one"),
        (3, f"the value's schema {right + 1_000_000} is not registered for {name} (TopicNameStrategy)"),
    ]


def test_the_schema_of_another_subject_is_refused(
    node: Cluster, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name, other = topic(**VALUES), topic(**VALUES)
    theirs = registry.register_schema(f"{other}-value", Schema(order(doc=other), "AVRO"))
    as_key = registry.register_schema(f"{name}-key", Schema(order(doc=name), "AVRO"))
    assert sent(node, other, {"value": framed(theirs)}) == [None]
    assert sent(node, name, {"value": framed(theirs)}) == [INVALID_RECORD]
    assert sent(node, name, {"value": framed(as_key)}) == [INVALID_RECORD]


def test_a_schema_counts_from_when_it_is_registered(
    node: Cluster, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name = topic(**VALUES)
    highest = registry.register_schema(f"{name}-other", Schema(order(doc=f"{name} first"), "AVRO"))
    assert sent(node, name, {"value": framed(highest + 1)}) == [INVALID_RECORD]
    assert registry.register_schema(f"{name}-value", Schema(order(doc=name), "AVRO")) == highest + 1
    assert sent(node, name, {"value": framed(highest + 1)}) == [None]


def test_tombstones_are_taken_and_keys_that_are_not_checked(node: Cluster, topic: Callable[..., str]) -> None:
    name = topic(**VALUES)
    assert sent(node, name, {"key": b"raw", "value": None}) == [None]


def test_keys_are_checked_by_their_own_subject(
    node: Cluster, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name = topic(**KEYS)
    write = AvroSerializer(registry, order("Key"))
    key = write({"id": 7}, SerializationContext(name, MessageField.KEY))
    assert sent(node, name, {"key": key, "value": b"raw"}, {"value": b"no key"}) == [None, None]
    assert sent(node, name, {"key": b"raw", "value": key}) == [INVALID_RECORD]


def test_schemas_may_be_named_in_headers(
    node: Cluster, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name = topic(**VALUES, **KEYS)
    rows: list[dict[str, Any]] = []
    headers: list[tuple[str, str | bytes | None]] = []
    config = {"schema.id.serializer": header_schema_id_serializer}
    for field, schema in ((MessageField.KEY, order("Key", doc=name)), (MessageField.VALUE, order(doc=name))):
        context = SerializationContext(name, field, headers)
        rows.append({"value": AvroSerializer(registry, schema, conf=config)({"id": BIG}, context)})
    key, value = rows[0]["value"], rows[1]["value"]
    assert sent(node, name, {"key": key, "value": value, "headers": headers}) == [None]
    assert sent(node, name, {"key": key, "value": value, "headers": headers[:1]}) == [INVALID_RECORD]
    wrong = [(header, b"\x01" + bytes(16)) for header, _ in headers]
    assert sent(node, name, {"key": key, "value": value, "headers": wrong}) == [INVALID_RECORD]


@pytest.mark.parametrize(
    ("strategy", "of_confluent"),
    [
        ("RecordNameStrategy", record_subject_name_strategy),
        (f"{PACKAGE}TopicRecordNameStrategy", topic_record_subject_name_strategy),
    ],
)
def test_subjects_may_be_named_after_records(
    node: Cluster, registry: SchemaRegistryClient, topic: Callable[..., str], strategy: str, of_confluent: Any
) -> None:
    name = topic(**VALUES, **{"confluent.value.subject.name.strategy": strategy})
    context, config = SerializationContext(name, MessageField.VALUE), {"subject.name.strategy": of_confluent}
    message = order_class()
    values = [
        AvroSerializer(registry, order("Sale"), conf=config)({"id": 1}, context),
        JSONSerializer(json.dumps({"title": "Note", "type": "object"}), registry, conf=config)({}, context),
        ProtobufSerializer(message, registry, {**config, "use.deprecated.format": False})(message(id=1), context),
    ]
    assert sent(node, name, *({"value": value} for value in values)) == [None] * 3
    by_topic = registry.register_schema(f"{name}-value", Schema(order("Elsewhere", doc=name), "AVRO"))
    assert sent(node, name, {"value": framed(by_topic)}) == [INVALID_RECORD]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_large_and_compressed_batches_are_looked_into(
    node: Cluster, client: Client, registry: SchemaRegistryClient, topic: Callable[..., str], codec: str
) -> None:
    name = topic(**VALUES)
    right = registry.register_schema(f"{name}-value", Schema(order(doc=name), "AVRO"))
    config = {"compression.type": codec, "message.max.bytes": 10_000_000, "batch.size": 8_000_000, "linger.ms": 500}
    rows = [{"value": framed(right, bytes(1_000))} for _ in range(5_000)]
    assert set(sent(node, name, *rows, **config)) == {None}
    rows[4_000] = {"value": framed(right + 1_000_000)}
    found = sent(node, name, *rows, **config)
    assert found[4_000] == INVALID_RECORD
    stored = values_of(client, name)
    assert len(stored) == 5_000 + found.count(None)
    assert framed(right + 1_000_000) not in stored


def test_a_transaction_is_checked_too(
    node: Cluster, client: Client, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name = topic(**VALUES)
    right = registry.register_schema(f"{name}-value", Schema(order(doc=name), "AVRO"))
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, framed(right))
    producer.commit_transaction(30)
    assert values_of(client, name) == [framed(right)]


def test_validation_can_be_switched_on_and_off(
    node: Cluster, client: Client, registry: SchemaRegistryClient, topic: Callable[..., str]
) -> None:
    name = topic()
    assert sent(node, name, {"value": b"raw"}) == [None]
    client.admin.alter_configs(ConfigResource.topic(name), set=VALUES)
    assert sent(node, name, {"value": b"raw"}) == [INVALID_RECORD]
    client.admin.alter_configs(ConfigResource.topic(name), set={**VALUES, next(iter(VALUES)): "false"})
    assert sent(node, name, {"value": b"raw"}) == [None]


def test_a_strategy_that_nobody_knows_is_refused(topic: Callable[..., str]) -> None:
    with pytest.raises(InvalidConfig, match=r"confluent\.value\.subject\.name\.strategy"):
        topic(**VALUES, **{"confluent.value.subject.name.strategy": "com.example.Mine"})


def test_a_node_without_a_registry_refuses_the_setting() -> None:
    refused = pytest.raises(InvalidConfig, match=r"no schema registry .*kavka\.registry\.listener")
    with Cluster() as plain, Client(plain.bootstrap) as client, refused:
        client.admin.create_topic("checked", configs=VALUES)


def test_what_nodes_ask_each_other_is_not_for_clients(registry: SchemaRegistryClient) -> None:
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    with pytest.raises(SchemaRegistryError) as error:
        registry._rest_client.get("kavka/registered/0000000001")
    assert error.value.http_status_code == 404
