"""A topic whose records are checked, while the node that knows the schemas is away."""

from __future__ import annotations

import json
import warnings

from confluent_kafka import KafkaError, Producer

from kavka.client.blocking import Client
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

CONFIG = {"kavka.registry.listener": "127.0.0.1:0", "kavka.schemas.topic.replication.factor": "1"}
VALIDATED = {"confluent.value.schema.validation": "true"}


def schema(doc: str) -> Schema:
    return Schema(json.dumps({"type": "record", "name": "Order", "doc": doc, "fields": []}), "AVRO")


def framed(id_: int) -> bytes:
    return b"\0" + id_.to_bytes(4, "big")


def test_nothing_is_taken_blindly_and_producers_try_again() -> None:
    with Cluster(nodes=3, config=CONFIG) as cluster, Client(cluster.bootstrap) as client:
        with SchemaRegistryClient({"url": cluster.registry}) as registry:
            first = registry.register_schema("checked-value", schema("first"))
            second = registry.register_schema("checked-value", schema("second"))
        (where,) = client.admin.describe_topic("_schemas").partitions
        node = next(each for each in cluster.nodes if each != where.leader)
        client.admin.create_topic("checked", assignments={0: [node]}, configs=VALIDATED)
        found: list[tuple[bytes, int | None]] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 120_000})

        def send(value: bytes, wait: float = 60) -> None:
            def told(error: KafkaError | None, _: object) -> None:
                found.append((value, None if error is None else error.code()))

            producer.produce("checked", value, on_delivery=told)
            producer.flush(wait)

        send(framed(first))
        assert found == [(framed(first), None)]
        cluster.kill(where.leader)
        send(framed(first))
        assert found[1:] == [(framed(first), None)]  # what is known needs no asking
        send(framed(second), wait=5)
        assert found[2:] == []
        with client.consumer("checked") as consumer:
            assert [record.value for record in consumer.until_end()] == [framed(first)] * 2
        cluster.start(where.leader)
        assert producer.flush(110) == 0
        assert found[2:] == [(framed(second), None)]
        send(framed(second + 1))
        assert found[3:] == [(framed(second + 1), KafkaError.INVALID_RECORD)]
