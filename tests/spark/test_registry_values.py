"""Values that Confluent's serializers wrote, decoded by the schemas that a node's registry has; and the way back."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kavka.client.registry import RegistryUnreachable
from kavka.client.schemas import Protobuf
from kavka.spark.connecting import OptionError
from kavka.spark.options import ValueFormat
from kavka.spark.registry.access import Access, opened
from kavka.spark.registry.languages import TYPES, readable, registered
from kavka.spark.registry.reading import registry_decoder
from kavka.spark.registry.writing import encoder, prepared
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

numbers = itertools.count()


@pytest.fixture(scope="module")
def served() -> Iterator[Cluster]:
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as cluster:
        yield cluster


@pytest.fixture
def access(served: Cluster) -> Access:
    return (("schema.registry.url", served.registry),)


@pytest.fixture
def confluent(served: Cluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": served.registry}) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"values-{next(numbers)}"


def decoder(access: Access, form: str, topic: str, version: str = "latest", message: str | None = None) -> Any:
    registry = opened(access)
    found = registered(registry, form, f"{topic}-value", version)
    return registry_decoder(access, form, readable(registry, form, found), message, found.subject)


def record(*fields: tuple[str, Any] | tuple[str, Any, Any]) -> str:
    named = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": named})


def avro(confluent: SchemaRegistryClient, topic: str, schema: str, *rows: Any) -> list[bytes]:
    write = AvroSerializer(confluent, schema)
    context = SerializationContext(topic, MessageField.VALUE)
    return [write(row, context) for row in rows]


def test_avro_of_two_schemas_becomes_the_columns_of_the_latest(
    access: Access, confluent: SchemaRegistryClient, topic: str
) -> None:
    first = record(("id", "int"), ("old", "string"), ("at", {"type": "long", "logicalType": "timestamp-millis"}))
    second = record(
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("country", "string", "CZ"),
        ("id", "long"),
    )
    now = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    values = avro(confluent, topic, first, {"id": 1, "old": "gone", "at": now})
    values += avro(confluent, topic, second, {"id": 1 << 40, "country": "DE", "at": now})
    rows, bad = decoder(access, "avro", topic).decode([*values, None])
    assert bad == []
    assert rows.to_pylist() == [
        {"at": now, "country": "CZ", "id": 1},
        {"at": now, "country": "DE", "id": 1 << 40},
        None,
    ]
    rows, bad = decoder(access, "avro", topic, version="1").decode(values[:1])
    assert rows.to_pylist() == [{"id": 1, "old": "gone", "at": now}]
    assert bad == []


def test_what_a_value_is_not_is_said(access: Access, confluent: SchemaRegistryClient, topic: str) -> None:
    good = avro(confluent, topic, record(("id", "int")), {"id": 1})[0]
    narrow = record(("id", "string"))
    confluent.set_compatibility(f"{topic}-value", "NONE")
    other = avro(confluent, topic, narrow, {"id": "x"})[0]
    json_id = confluent.register_schema(f"{topic}-json", Schema('{"type": "object"}', "JSON"))
    read = decoder(access, "avro", topic, version="1")
    values = [
        good,
        other,
        b"\0\0\1\x86\xa0x",
        b"plain",
        b"",
        b"\0" + json_id.to_bytes(4, "big"),
        good[:5],
        good + b"x",
        good,
    ]
    rows, bad = read.decode(pa.array(values, pa.binary()))
    assert [row and row["id"] for row in rows.to_pylist()] == [1, *[None] * 7, 1]
    reasons = dict(bad)
    assert list(reasons) == [1, 2, 3, 4, 5, 6, 7]
    assert "SchemaResolutionError" in reasons[1]
    assert "schema 100000, which the registry does not have" in reasons[2]
    assert "no schema id" in reasons[3]
    assert "no schema id" in reasons[4]
    assert "of type JSON, not AVRO" in reasons[5]
    assert "bytes follow the record" in reasons[7]


def test_avro_with_unions_and_references(access: Access, confluent: SchemaRegistryClient, topic: str) -> None:
    line = '{"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}'
    confluent.register_schema(f"{topic}-line", Schema(line, "AVRO"))
    uses = [SchemaReference("shop.Line", f"{topic}-line", 1)]
    first = record(("what", ["null", "int"]), ("line", "shop.Line"), ("more", {"type": "array", "items": "shop.Line"}))
    second = record(
        ("what", ["null", "string", "long", "shop.Line"]),
        ("line", "shop.Line"),
        ("more", {"type": "array", "items": "shop.Line"}),
    )
    context = SerializationContext(topic, MessageField.VALUE)
    values = []
    for text, whats in ((first, (7, None)), (second, ("text", 1 << 40, ("shop.Line", {"sku": "s"})))):
        write = AvroSerializer(confluent, Schema(text, "AVRO", uses))
        values += [write({"what": what, "line": {"sku": "a"}, "more": [{"sku": "b"}]}, context) for what in whats]
    rows, bad = decoder(access, "avro", topic).decode(values)
    assert bad == []
    nothing = {"member0": None, "member1": None, "member2": None}
    assert [row["what"] for row in rows.to_pylist()] == [
        {**nothing, "member1": 7},
        None,
        {**nothing, "member0": "text"},
        {**nothing, "member1": 1 << 40},
        {**nothing, "member2": {"sku": "s"}},
    ]
    assert rows[0].as_py()["line"] == {"sku": "a"}
    assert rows[0].as_py()["more"] == [{"sku": "b"}]


def order_file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=f"order{next(numbers)}.proto", package="shop", syntax="proto3")
    for name, fields in (("Other", (("x", 5),)), ("Order", (("id", 3), ("note", 9)))):
        message = file.message_type.add(name=name)
        for number, (each, kind) in enumerate(fields, 1):
            message.field.add(name=each, number=number, type=kind, label=1)  # type: ignore[arg-type]
    order = file.message_type[1]
    order.field.add(name="at", number=9, type=11, label=1, type_name=".google.protobuf.Timestamp")  # type: ignore[arg-type]
    file.dependency.append("google/protobuf/timestamp.proto")
    return file


def classes(file: Any, *names: str) -> list[Any]:
    from google.protobuf import timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


def test_protobuf_by_the_messages_of_its_schema(access: Access, confluent: SchemaRegistryClient, topic: str) -> None:
    file = order_file()
    other, order = classes(file, "shop.Other", "shop.Order")
    context = SerializationContext(topic, MessageField.VALUE)
    options = {"use.deprecated.format": False}
    values = [ProtobufSerializer(order, confluent, options)(order(id=7, note="n", at={"seconds": 5}), context)]
    values.append(ProtobufSerializer(other, confluent, options)(other(x=1), context))
    file.message_type[1].field.add(name="more", number=4, type=9, label=1)
    (wider,) = classes(file, "shop.Order")
    values.append(ProtobufSerializer(wider, confluent, options)(wider(id=8, more="m"), context))
    rows, bad = decoder(access, "protobuf", topic, message="shop.Order").decode(values)
    assert rows.to_pylist() == [
        {"id": 7, "note": "n", "at": dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC), "more": ""},
        None,
        {"id": 8, "note": "", "at": None, "more": "m"},
    ]
    assert [(row, reason.partition(": ")[2]) for row, reason in bad] == [
        (1, "the value is message shop.Other, not shop.Order")
    ]
    rows, _ = decoder(access, "protobuf", topic).decode(values)
    assert [row and row["x"] for row in rows.to_pylist()] == [None, 1, None]


ORDER_JSON = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {},
    },
    "required": ["id"],
    "definitions": {"line": {"type": "object", "properties": {"sku": {"type": ["string", "null"]}}}},
}


def test_json_by_the_columns_of_its_schema(access: Access, confluent: SchemaRegistryClient, topic: str) -> None:
    write = JSONSerializer(json.dumps(ORDER_JSON), confluent)
    context = SerializationContext(topic, MessageField.VALUE)
    order = {"id": 1, "price": 2.5, "at": "2026-01-02T03:04:05Z", "lines": [{"sku": "a"}], "tags": {"k": "v"}}
    good = write({**order, "any": [1, {"x": 2}]}, context)
    read = decoder(access, "json-schema", topic)
    misfit = good[:5] + b'{"id": "x"}'
    rows, bad = read.decode(pa.array([good, b"{}", None, misfit, b"\0\0\1\x86\xa0{}", good[:5]], pa.binary()))
    assert rows.to_pylist()[0] == {
        "id": 1,
        "price": 2.5,
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "lines": [{"sku": "a"}],
        "tags": [("k", "v")],
        "any": '[1,{"x":2}]',
    }
    assert rows.to_pylist()[1:] == [None] * 5
    assert [row for row, _ in bad] == [1, 3, 4, 5]
    assert "no schema id" in bad[0][1]
    assert "does not fit a BIGINT" in bad[1][1]
    assert "the registry does not have" in bad[2][1]
    assert read.decode([good, good])[1] == []


KIND = pa.struct(
    [
        pa.field("id", pa.int64()),
        pa.field("price", pa.decimal128(8, 2)),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("tags", pa.map_(pa.string(), pa.int32())),
        pa.field("lines", pa.list_(pa.field("element", pa.struct([pa.field("sku", pa.string())])))),
    ]
)
ROW = {
    "id": 7,
    "price": Decimal("1.50"),
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    "tags": [("k", 1)],
    "lines": [{"sku": "a"}, None],
}


def written(access: Access, form: str, topic: str, **more: Any) -> ValueFormat:
    return replace(ValueFormat(form, access, f"{topic}-value", "latest", None, False), **more)


@pytest.mark.parametrize("form", ["avro", "json-schema"])
def test_rows_are_written_with_a_schema_of_their_own(
    form: str, access: Access, confluent: SchemaRegistryClient, topic: str
) -> None:
    ready = prepared(written(access, form, topic, register=True), KIND)
    values = encoder(ready)(pa.array([ROW, None], KIND))
    assert values[1] is None
    context = SerializationContext(topic, MessageField.VALUE)
    deserialize: Any = (
        AvroDeserializer(confluent) if form == "avro" else JSONDeserializer(None, schema_registry_client=confluent)
    )
    read = deserialize(values[0], context)
    assert read["id"] == 7
    assert float(read["price"]) == 1.5
    assert read["tags"] == {"k": 1}
    assert read["lines"] == [{"sku": "a"}, None]
    rows, bad = decoder(access, form, topic).decode(values)
    assert bad == []
    assert rows[0].as_py()["at"] == ROW["at"]
    # the same columns are the same schema, more of them a compatible one, and others are refused
    assert prepared(written(access, form, topic, register=True), KIND).schema_id == ready.schema_id
    if form == "avro":
        wider = pa.struct([*KIND, pa.field("note", pa.string())])
        assert prepared(written(access, form, topic, register=True), wider).schema_id != ready.schema_id
    clash = pa.struct([pa.field("id", pa.string())])
    with pytest.raises(OptionError, match="do not fit subject"):
        prepared(written(access, form, topic, register=True), clash)


def test_rows_are_written_as_the_registrys_protobuf(
    access: Access, confluent: SchemaRegistryClient, topic: str
) -> None:
    file = order_file()
    (order,) = classes(file, "shop.Order")
    context = SerializationContext(topic, MessageField.VALUE)
    ProtobufSerializer(order, confluent, {"use.deprecated.format": False})(order(id=1), context)
    kind = pa.struct([pa.field("id", pa.int64()), pa.field("note", pa.string())])
    ready = prepared(written(access, "protobuf", topic, message="shop.Order"), kind)
    (value,) = encoder(ready)(pa.array([{"id": 9, "note": None}], kind))
    read = ProtobufDeserializer(order, {"use.deprecated.format": False}, confluent)(value, context)
    assert (read.id, read.note) == (9, "")
    with pytest.raises(OptionError, match="has no field 'x'"):
        prepared(written(access, "protobuf", topic, message="shop.Order"), pa.struct([pa.field("x", pa.int64())]))


def test_a_subject_that_is_not_there_or_of_another_language_is_told(
    access: Access, confluent: SchemaRegistryClient, topic: str
) -> None:
    with pytest.raises(OptionError, match="has no subject"):
        decoder(access, "avro", topic)
    confluent.register_schema(f"{topic}-value", Schema('{"type": "object"}', "JSON"))
    with pytest.raises(OptionError, match=r"set value\.format to json-schema"):
        decoder(access, "avro", topic)


def test_a_registry_that_does_not_answer_makes_no_value_bad(
    access: Access, confluent: SchemaRegistryClient, topic: str
) -> None:
    (value,) = avro(confluent, topic, record(("id", "int")), {"id": 1})
    registry = opened(access)
    schema = readable(registry, "avro", registered(registry, "avro", f"{topic}-value"))
    lost = registry_decoder((("schema.registry.url", "http://127.0.0.1:1"),), "avro", schema, None, None)
    with pytest.raises(RegistryUnreachable):
        lost.decode([value])


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_ids_count_in_the_context_of_the_subject(
    served: Cluster, access: Access, confluent: SchemaRegistryClient, topic: str, form: str
) -> None:
    """Both contexts give out the same ids, for schemas that have nothing in common."""
    place = f":.{topic}:"
    kind = TYPES[form]
    texts = {
        "avro": ('{"type": "enum", "name": "shop.E", "symbols": ["A", "B"]}', record(("e", "E"))),
        "protobuf": (
            'syntax = "proto3"; message E { int64 n = 1; }',
            'syntax = "proto3"; import "E"; message R { E e = 1; }',
        ),
    }
    for number in (1, 2):  # so that the default one has other schemas under these ids
        confluent.register_schema(f"{topic}-{number}", Schema(json.dumps({"title": str(number)}), "JSON"))
    confluent.register_schema(f"{place}inner", Schema(texts[form][0], kind))
    references = [SchemaReference("E", "inner", 1)]
    id_ = confluent.register_schema(f"{place}{topic}-value", Schema(texts[form][1], kind, references))
    head = b"\0" + id_.to_bytes(4, "big")
    assert id_ == 2
    value = head + (b"\x02" if form == "avro" else b"\0\x0a\x02\x08\x07")
    rows, bad = decoder(access, form, place + topic).decode([value])
    assert (rows.to_pylist(), bad) == ([{"e": "B" if form == "avro" else {"n": 7}}], [])


def test_protobuf_that_imports_files_of_confluent(access: Access, confluent: SchemaRegistryClient, topic: str) -> None:
    text = (
        'syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto"; message Bill {'
        " confluent.type.Decimal sum = 1 [(confluent.field_meta).doc = 'in euros']; string note = 2; }"
    )
    id_ = confluent.register_schema(f"{topic}-value", Schema(text, "PROTOBUF"))
    value = b"\0" + id_.to_bytes(4, "big") + b"\0" + b"\x0a\x06\x0a\x02\x04\xd2\x18\x02\x12\x01n"
    rows, bad = decoder(access, "protobuf", topic, message="Bill").decode([value])
    assert [each for each in bad if each] == []
    ((sum_, note),) = ((row["sum"], row["note"]) for row in rows.to_pylist())
    assert (sum_["value"], sum_["scale"], note) == (b"\x04\xd2", 2, "n")


def test_a_message_beside_a_map_is_where_confluents_serializer_says(
    access: Access, confluent: SchemaRegistryClient, topic: str
) -> None:
    file = descriptor_pb2.FileDescriptorProto(name=f"maps{next(numbers)}.proto", package="shop", syntax="proto3")
    outer = file.message_type.add(name="Outer")
    entry = outer.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", 9), ("value", 5)), 1):
        entry.field.add(name=name, number=number, type=kind, label=1)  # type: ignore[arg-type]
    outer.field.add(name="m", number=1, type=11, label=3, type_name=".shop.Outer.MEntry")  # type: ignore[arg-type]
    outer.nested_type.add(name="Inner").field.add(name="id", number=1, type=3, label=1)
    (inner,) = classes(file, "shop.Outer.Inner")
    context = SerializationContext(topic, MessageField.VALUE)
    value = ProtobufSerializer(inner, confluent, {"use.deprecated.format": False})(inner(id=7), context)
    rows, bad = decoder(access, "protobuf", topic, message="shop.Outer.Inner").decode([value])
    assert (rows.to_pylist(), bad) == ([{"id": 7}], [])
    kind = pa.struct([pa.field("id", pa.int64())])
    ready = prepared(written(access, "protobuf", topic, message="shop.Outer.Inner"), kind)
    assert encoder(ready)(pa.array([{"id": 7}], kind)) == [value]
    registry = opened(access)
    read: Any = registry.run(Protobuf[Any](registry).deserialize(topic, value))
    assert read.id == 7
    assert registry.run(Protobuf(registry, inner).serialize(topic, inner(id=7))) == value


def test_a_type_that_a_reference_defines_is_used_beside_it(
    access: Access, confluent: SchemaRegistryClient, topic: str
) -> None:
    inner = {"type": "record", "name": "shop.Price", "fields": [{"name": "n", "type": "int"}]}
    line = {"type": "record", "name": "shop.Line", "fields": [{"name": "price", "type": inner}]}
    confluent.register_schema(f"{topic}-line", Schema(json.dumps(line), "AVRO"))
    text = record(("line", "shop.Line"), ("total", "shop.Price"))
    references = [SchemaReference("shop.Line", f"{topic}-line", 1)]
    id_ = confluent.register_schema(f"{topic}-value", Schema(text, "AVRO", references))
    rows, bad = decoder(access, "avro", topic).decode([b"\0" + id_.to_bytes(4, "big") + b"\x02\x04"])
    assert (rows.to_pylist(), bad) == ([{"line": {"price": {"n": 1}}, "total": {"n": 2}}], [])
