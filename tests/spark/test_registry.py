"""Flows whose values have their schemas in a registry: tables follow the changes, what cannot be read is set aside."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.serialization import MessageField, SerializationContext

from kavka.client.blocking import Client
from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.lake.table import TableSpec
from kavka.spark.pipelines.flows import start_query
from kavka.spark.pipelines.spec import Pipeline, load
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

SPEC = """
bootstrap: {bootstrap}
registry: {registry}
flows:
  - name: orders
    source: {{topic: {topic}, format: avro, dead_letters: {topic}-dead}}
    sink: {{table: {{format: {form}, path: table}}}}
"""


@pytest.fixture
def confluent(node: Cluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.registry}) as client:
        yield client


def record(*fields: Any) -> str:
    named = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": named})


def produce(node: Cluster, serializer: Any, topic: str, *rows: Any) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    context = SerializationContext(topic, MessageField.VALUE)
    for row in rows:
        producer.produce(topic, row if isinstance(row, bytes) else serializer(row, context))
    assert producer.flush(30) == 0


def run(spark: Any, pipeline: Pipeline) -> None:
    for flow in pipeline.flows:
        start_query(spark, pipeline, flow, once=True).awaitTermination()


def content(spec: TableSpec | None, *names: str) -> list[tuple[Any, ...]]:
    assert spec is not None
    if spec.format == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(spec.path).to_pyarrow_table()
    else:
        opened = Iceberg(spec)._open()
        assert opened is not None
        found = opened.scan().to_arrow()
    return sorted(tuple(row[name] for name in names) for row in found.to_pylist())


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_follows_compatible_changes(
    form: str,
    client: Client,
    topic: Callable[..., str],
    spark: Any,
    node: Cluster,
    confluent: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    name = topic(partitions=1)
    client.admin.create_topic(f"{name}-dead", partitions=1)
    text = SPEC.format(bootstrap=node.bootstrap, registry=node.registry, topic=name, form=form)
    (tmp_path / "pipeline.yaml").write_text(text)
    first = AvroSerializer(confluent, record(("id", "int"), ("amount", "float")))
    produce(node, first, name, {"id": 1, "amount": 1.5}, b"no frame", {"id": 2, "amount": 2.5})
    pipeline = load(tmp_path)
    spec = pipeline.flows[0].sink.table
    run(spark, pipeline)
    assert content(spec, "id", "amount") == [(1, 1.5), (2, 2.5)]

    line = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    wider = "long" if form == "iceberg" else "int"  # Delta's columns do not become wider
    second = AvroSerializer(
        confluent,
        record(("note", ["null", "string"], None), ("amount", "float"), ("id", wider), ("line", ["null", line], None)),
    )
    produce(node, first, name, {"id": 3, "amount": 3.5})
    produce(node, second, name, {"id": 4, "amount": 4.5, "note": "n", "line": {"sku": "s"}}, b"\0\0\0\xff\xffx")
    run(spark, pipeline)
    assert content(spec, "id", "amount", "note", "line") == [
        (1, 1.5, None, None),
        (2, 2.5, None, None),
        (3, 3.5, None, None),
        (4, 4.5, "n", {"sku": "s"}),
    ]
    with client.consumer(f"{name}-dead") as consumer:
        letters = [record for _ in range(20) for record in consumer.read(timeout_ms=200)][:2]
    assert [letter.value for letter in letters] == [b"no frame", b"\0\0\0\xff\xffx"]
    reasons = [dict(letter.headers)["kavka.error"] or b"" for letter in letters]
    assert b"no schema id" in reasons[0]
    assert b"which the registry does not have" in reasons[1]


JSON_TO_AVRO = """
bootstrap: {bootstrap}
registry: {registry}
flows:
  - name: copied
    source: {{topic: {topic}, format: json-schema}}
    transform: functions:kept
    sink: {{topic: {target}, format: avro, options: {{value.schema.register: true}}}}
"""


def test_a_topic_is_written_with_framed_values(
    topic: Callable[..., str],
    spark: Any,
    node: Cluster,
    client: Client,
    confluent: SchemaRegistryClient,
    tmp_path: Path,
    read: Callable[..., Any],
) -> None:
    name, target = topic(partitions=1), topic(partitions=1)
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "tag": {"type": "string"}}}
    produce(node, JSONSerializer(json.dumps(schema), confluent), name, {"id": 1, "tag": "a"}, {"id": 2})
    text = JSON_TO_AVRO.format(bootstrap=node.bootstrap, registry=node.registry, topic=name, target=target)
    (tmp_path / "pipeline.yaml").write_text(text)
    (tmp_path / "functions.py").write_text("def kept(frame):\n    return frame.selectExpr('id', 'upper(tag) AS tag')\n")
    run(spark, load(tmp_path))
    with client.consumer(target) as consumer:
        records = [record for _ in range(20) for record in consumer.read(timeout_ms=200)][:2]
    context = SerializationContext(target, MessageField.VALUE)
    assert [AvroDeserializer(confluent)(record.value, context) for record in records] == [
        {"id": 1, "tag": "A"},
        {"id": 2, "tag": None},
    ]
    rows = read(target, value__format="avro", schema__registry__url=node.registry).select("value.*").collect()
    assert [tuple(row) for row in rows] == [(1, "A"), (2, None)]


def test_a_version_can_be_pinned(
    topic: Callable[..., str],
    node: Cluster,
    confluent: SchemaRegistryClient,
    read: Callable[..., Any],
) -> None:
    name = topic(partitions=1)
    confluent.register_schema(f"{name}-value", Schema(record(("id", "int")), "AVRO"))
    both = record(("id", "int"), ("more", "int", 0))
    produce(node, AvroSerializer(confluent, both), name, {"id": 1, "more": 2})
    options = {"value__format": "avro", "schema__registry__url": node.registry}
    assert read(name, **options).select("value.*").columns == ["id", "more"]
    pinned = read(name, **options, value__schema__version=1).select("value.*")
    assert pinned.columns == ["id"]
    assert [tuple(row) for row in pinned.collect()] == [(1,)]
