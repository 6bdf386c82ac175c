"""Typed records through a running node and its registry, and what Confluent's serializers make of them."""

from __future__ import annotations

import asyncio
import json
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pydantic
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kavka.client import Admin, Consumer, DeserializationError, Producer, Text, TypedConsumer, TypedProducer
from kavka.client.registry import IncompatibleSchema, Reference, Schema, SchemaNotFound
from kavka.client.registry import SchemaRegistry as AsyncRegistry
from kavka.client.registry.blocking import SchemaRegistry
from kavka.client.schemas import AnySchema, Avro, JsonSchema, Protobuf
from kavka.client.schemas.write import written_by
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import (
        SchemaRegistryClient,
        dual_schema_id_deserializer,
        header_schema_id_serializer,
    )
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
BIG = 1 << 62  # Confluent's take no message of less than six bytes, not even if its frame is in a header
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})


@dataclass(frozen=True)
class Order:
    id: int


@dataclass(frozen=True)
class Newer:
    id: int
    note: str | None = None


Newer.__name__ = "Order"


class Model(pydantic.BaseModel):
    model_config = {"title": "Order", "extra": "forbid"}
    id: int


@cache
def message_classes() -> dict[str, Any]:
    """Classes as protoc would have made them of two files, one of which imports the other and a known one."""
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    from google.protobuf import timestamp_pb2

    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    place = descriptor_pb2.FileDescriptorProto(name="shop/place.proto", package="shop", syntax="proto3")
    place.message_type.add(name="Place").field.add(name="town", number=1, type=9, label=1, json_name="town")
    pool.Add(place)
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.extend(["shop/place.proto", "google/protobuf/timestamp.proto"])
    file.message_type.add(name="Unused")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1, json_name="id")
    order.field.add(name="to", number=2, type=11, type_name=".shop.Place", label=1, json_name="to")
    order.field.add(name="at", number=3, type=11, type_name=".google.protobuf.Timestamp", label=1, json_name="at")
    order.nested_type.add(name="Line").field.add(name="count", number=1, type=5, label=1, json_name="count")
    pool.Add(file)
    names = ("Place", "Order", "Order.Line", "Unused")
    return {each: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{each}")) for each in names}


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as running:
        yield running


@pytest.fixture
def registry(node: Cluster) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(node.registry) as client:
        yield client


@pytest.fixture
def theirs(node: Cluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.registry}) as client:
        yield client


def value_of(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


@pytest.mark.parametrize("framing", ["prefix", "header"])
@pytest.mark.parametrize(
    ("ours", "value", "plain"),
    [
        (lambda registry, **more: Avro(registry, AVRO, **more), {"id": BIG}, {"id": BIG}),
        (lambda registry, **more: Avro(registry, Order, **more), Order(BIG), {"id": BIG}),
        (lambda registry, **more: Avro(registry, Model, **more), Model(id=BIG), {"id": BIG}),
        (lambda registry, **more: JsonSchema(registry, JSON, **more), {"id": BIG}, {"id": BIG}),
        (lambda registry, **more: JsonSchema(registry, Order, **more), Order(BIG), {"id": BIG}),
        (lambda registry, **more: JsonSchema(registry, Model, **more), Model(id=BIG), {"id": BIG}),
    ],
    ids=["avro", "avro-dataclass", "avro-pydantic", "json", "json-dataclass", "json-pydantic"],
)
def test_avro_and_json_go_both_ways(
    registry: SchemaRegistry,
    theirs: SchemaRegistryClient,
    framing: str,
    ours: Any,
    value: Any,
    plain: Any,
    request: pytest.FixtureRequest,
) -> None:
    topic = request.node.callspec.id
    serde = ours(registry, framing=framing)
    headers: list[Any] = []
    written = registry.run(serde.serialize_part("value", topic, value, headers))
    assert len(headers) == (framing == "header")
    assert registry.run(serde.deserialize_part("value", topic, written, headers)) == value
    assert registry.run(AnySchema(registry).deserialize_part("value", topic, written, headers)) == plain

    schema = theirs.get_latest_version(f"{topic}-value").schema
    context = value_of(topic, headers)
    options = {"schema.id.deserializer": dual_schema_id_deserializer}
    if "avro" in topic:
        assert AvroDeserializer(theirs, conf=options)(written, context) == plain
    else:
        assert (
            JSONDeserializer(schema.schema_str, schema_registry_client=theirs, conf=options)(written, context) == plain
        )

    back: list[Any] = []
    conf = {"schema.id.serializer": header_schema_id_serializer} if framing == "header" else {}
    if "avro" in topic:
        made = AvroSerializer(theirs, schema.schema_str, conf=conf)(plain, value_of(topic, back))
    else:
        made = JSONSerializer(schema.schema_str, theirs, conf=conf)(plain, value_of(topic, back))
    assert registry.run(serde.deserialize_part("value", topic, made, back)) == value
    assert (made, back) == (written, headers) or "json" in topic  # JSON has room for blanks


@pytest.mark.parametrize(
    ("framing", "name"),
    [
        ("prefix", "Order"),
        ("prefix", "Order.Line"),
        ("prefix", "Unused"),
        ("header", "Order"),
        ("header", "Order.Line"),
    ],
)
def test_protobuf_goes_both_ways(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, framing: Any, name: str, request: pytest.FixtureRequest
) -> None:
    topic = request.node.callspec.id
    classes = message_classes()
    kind = classes[name]
    value = {
        "Order": lambda: kind(id=7, to={"town": "Brno"}, at={"seconds": 5}),
        "Order.Line": lambda: kind(count=1 << 30),
    }
    message = value.get(name, kind)()
    serde = Protobuf(registry, kind, framing=framing)
    headers: list[Any] = []
    written = registry.run(serde.serialize_part("value", topic, message, headers))
    assert registry.run(serde.deserialize_part("value", topic, written, headers)) == message
    options = {"use.deprecated.format": False}
    dual = {**options, "schema.id.deserializer": dual_schema_id_deserializer}
    assert ProtobufDeserializer(kind, dual, theirs)(written, value_of(topic, headers)) == message

    back: list[Any] = []
    conf = {**options, "schema.id.serializer": header_schema_id_serializer} if framing == "header" else options
    made = ProtobufSerializer(kind, theirs, conf)(message, value_of(topic, back))
    assert (made, back) == (written, headers)
    found: Any = registry.run(Protobuf[Any](registry).deserialize_part("value", topic, made, back))
    assert found.DESCRIPTOR.full_name == f"shop.{name}"
    shown = registry.run(AnySchema(registry).deserialize_part("value", topic, made, back))
    assert (
        shown
        == {
            "Order": {"id": "7", "to": {"town": "Brno"}, "at": "1970-01-01T00:00:05Z"},
            "Order.Line": {"count": 1 << 30},
            "Unused": {},
        }[name]
    )
    other = Protobuf(registry, classes["Place"])
    with pytest.raises(ValueError, match=r"not shop\.Place"):
        registry.run(other.deserialize_part("value", topic, made, back))


def test_a_topic_of_typed_records(node: Cluster) -> None:
    async def case() -> list[Any]:
        async with Admin(node.bootstrap) as admin:
            await admin.create_topic("orders")
        async with AsyncRegistry(node.registry) as registry, Producer(node.bootstrap) as producer:
            older = TypedProducer(producer, key=Text(), value=Avro(registry, Order))
            newer = TypedProducer(producer, key=Text(), value=Avro(registry, Newer, framing="header"))
            keyed = TypedProducer(producer, key=Avro[Any](registry, '"string"'), value=Avro(registry, Order))
            await older.send("orders", Order(1), key="a")
            await newer.send("orders", Newer(2, "x"), key="b", headers=[("mine", b"1")])
            await keyed.send("orders", Order(3), key="c")
            await producer.send("orders", b"garbage")
        found: list[Any] = []
        async with AsyncRegistry(node.registry) as registry, Consumer(node.bootstrap) as consumer:
            await consumer.assign("orders")
            typed = TypedConsumer(consumer, key=AnyKey(registry), value=Avro(registry, Newer))
            async for record in consumer.until_end():
                try:
                    each = await typed.typed(record)
                    found.append((each.key, each.value, [name for name, _ in each.headers]))
                except DeserializationError as error:
                    found.append(str(error))
            assert await registry.versions("orders-value") == [1, 2]
            assert await registry.versions("orders-key") == [1]
        return found

    assert asyncio.run(case()) == [
        ("a", Newer(1), []),
        ("b", Newer(2, "x"), ["mine", "__value_schema_id"]),
        ("c", Newer(3), []),
        "orders-0 at offset 3 cannot be read: it does not begin with the id of a schema",
    ]


class AnyKey:
    """Keys of either kind."""

    def __init__(self, registry: AsyncRegistry) -> None:
        self._framed = Avro[Any](registry)

    async def deserialize(self, topic: str, data: bytes | None, /) -> Any:
        framed = data is not None and data[:1] == b"\0"
        return await (self._framed if framed else Text()).deserialize(topic, data)


def test_schemas_build_on_others(registry: SchemaRegistry, theirs: SchemaRegistryClient) -> None:
    registry.register(
        "place", Schema('{"type": "record", "name": "Place", "fields": [{"name": "town", "type": "string"}]}')
    )
    person = '{"type": "record", "name": "Person", "fields": [{"name": "home", "type": "Place"}]}'
    serde = Avro[Any](registry, Schema(person, references=(Reference("Place", "place", 1),)))
    value = {"home": {"town": "Brno"}}
    written = registry.run(serde.serialize("people", value))
    assert AvroDeserializer(theirs)(written, value_of("people")) == value
    assert registry.run(Avro[Any](registry).deserialize("people", written)) == value

    registry.register("town.json", Schema('{"type": "string", "minLength": 2}', "JSON"))
    house = '{"type": "object", "properties": {"town": {"$ref": "town.json"}}}'
    typed = JsonSchema[Any](registry, Schema(house, "JSON", (Reference("town.json", "town.json", 1),)))
    written = registry.run(typed.serialize("houses", {"town": "Brno"}))
    assert registry.run(JsonSchema[Any](registry).deserialize("houses", written)) == {"town": "Brno"}
    with pytest.raises(ValueError, match=r"\$\.town: 'B' is too short"):
        registry.run(typed.serialize("houses", {"town": "B"}))


def test_who_may_not_register_finds_what_is_there(registry: SchemaRegistry) -> None:
    with pytest.raises(SchemaNotFound):
        registry.run(Avro(registry, Order, register=False).serialize("found", Order(1)))
    registry.run(Avro(registry, Order).serialize("found", Order(1)))
    assert registry.run(Avro(registry, Order, register=False).serialize("found", Order(1))) is not None


def test_the_latest_schema_is_written_by_if_asked_for(registry: SchemaRegistry) -> None:
    registry.run(Avro(registry, Newer).serialize("latest", Newer(1)))
    latest = Avro[Any](registry, use_latest=True)
    written = registry.run(latest.serialize("latest", {"id": 1, "note": "n"}))
    assert registry.run(latest.deserialize("latest", written)) == {"id": 1, "note": "n"}
    with pytest.raises(TypeError, match="use_latest"):
        registry.run(Avro[Any](registry).serialize("latest", {"id": 1}))


def test_subjects_by_the_name_of_the_record(registry: SchemaRegistry) -> None:
    schema = '{"type": "record", "name": "Named", "namespace": "shop", "fields": []}'
    registry.run(Avro[Any](registry, schema, subject="record").serialize("named", {}))
    registry.run(Avro[Any](registry, schema, subject="topic-record").serialize("named", {}))
    assert {"shop.Named", "named-shop.Named"} <= set(registry.subjects())


def test_bytes_alone_have_no_length_in_front(registry: SchemaRegistry, theirs: SchemaRegistryClient) -> None:
    serde = Avro[Any](registry, '"bytes"')
    written = registry.run(serde.serialize("raw", b"abc"))
    assert written is not None
    assert written[5:] == b"abc"
    assert AvroDeserializer(theirs)(written, value_of("raw")) == b"abc"
    assert registry.run(serde.deserialize("raw", written)) == b"abc"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x7f\xff\xff\xff", "its schema 2147483647 is not in the schema registry"),
        (b"hello", "does not begin with the id of a schema"),
        (b"", "does not begin with the id of a schema"),
    ],
)
def test_records_of_nobody_are_refused(registry: SchemaRegistry, data: bytes, message: str) -> None:
    for serde in (Avro[Any](registry), AnySchema(registry)):
        with pytest.raises(ValueError, match=message):
            registry.run(serde.deserialize("t", data))  # type: ignore[attr-defined]


def test_values_and_bytes_that_do_not_fit_are_refused(registry: SchemaRegistry) -> None:
    serde = Avro[Any](registry, AVRO)
    with pytest.raises(ValueError, match="does not fit its schema"):
        registry.run(serde.serialize("unfit", {"id": "seven"}))
    written = registry.run(serde.serialize("unfit", {"id": 1}))
    assert written is not None
    with pytest.raises(ValueError, match="does not fit its schema"):
        registry.run(serde.deserialize("unfit", written[:5]))
    with pytest.raises(ValueError, match="of type AVRO, not JSON"):
        registry.run(JsonSchema[Any](registry).deserialize("unfit", written))
    with pytest.raises(IncompatibleSchema):
        registry.run(Avro[Any](registry, '"string"').serialize("unfit", "x"))


def test_any_bytes_are_read_or_refused(registry: SchemaRegistry) -> None:
    kinds = ["string", "bytes", {"type": "array", "items": "long"}, {"type": "map", "values": "double"}]
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    full = json.dumps({"type": "record", "name": "Full", "fields": fields})
    written = [
        registry.run(
            Avro[Any](registry, full).serialize("any-a", {"f0": "a", "f1": b"b", "f2": [1], "f3": {"k": 1.0}})
        ),
        registry.run(JsonSchema[Any](registry, JSON).serialize("any-j", {"id": 1})),
        registry.run(Protobuf[Any](registry).serialize("any-p", message_classes()["Order"](id=1, to={"town": "x"}))),
    ]
    reading = AnySchema(registry)
    chance = random.Random(21)
    outcomes = {True: 0, False: 0}
    for number in range(2_000):
        data = bytearray(written[number % 3] or b"")
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(5, len(data))] = chance.randrange(256)
        data = data[: chance.randrange(5, len(data) + 1)] + chance.randbytes(chance.randrange(3))
        try:
            registry.run(reading.deserialize("any", bytes(data)))
            outcomes[True] += 1
        except ValueError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 20
    deep = (written[1] or b"")[:5] + b"[" * 100_000
    with pytest.raises(ValueError, match="does not fit its schema"):
        registry.run(JsonSchema[Any](registry).deserialize("any-j", deep))


def test_lists_of_nothing_are_not_read(registry: SchemaRegistry) -> None:
    serde = Avro[Any](registry, '{"type": "array", "items": "null"}')
    written = registry.run(serde.serialize("nothing", [None]))
    with pytest.raises(ValueError, match="items without bytes"):
        registry.run(serde.deserialize("nothing", written))


def test_ids_count_in_the_context_of_a_topics_subject(registry: SchemaRegistry) -> None:
    def subject(topic: str, part: str, record: str | None) -> str:
        return f":.{topic}:{topic}-{part}"

    serde = Avro[Any](registry, use_latest=True, register=False, subject=subject)
    plain = Avro[Any](registry, subject=subject)
    for topic, name in (("north", "id"), ("south", "other")):
        text = json.dumps({"type": "record", "name": "Order", "fields": [{"name": name, "type": "long"}]})
        assert registry.register(subject(topic, "value", None), Schema(text)).id == 1
        written = registry.run(serde.serialize(topic, {name: BIG}))
        assert registry.run(plain.deserialize(topic, written)) == {name: BIG}
    place = registry.register(
        ":.east:shop", Schema('syntax = "proto3"; message Place { string town = 1; }', "PROTOBUF")
    )
    write = registry.run(written_by(registry.inner, place))
    assert (place.id, write({"town": "Brno"})) == (1, b"\0\0\0\0\x01\0\x0a\x04Brno")


OF_CONFLUENT = """
syntax = "proto3";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "confluent/type/variant.proto";
message Bill {
  option (confluent.message_meta).doc = "what is to be paid";
  confluent.type.Decimal sum = 1 [(confluent.field_meta) = {tags: ["PII"], params: [{key: "scale", value: "2"}]}];
  confluent.type.Variant more = 2;
  confluent.Meta about = 3;
}
"""


def test_files_of_confluent_are_imported_by_schemas(registry: SchemaRegistry) -> None:
    bill = {"sum": {"value": "BNI=", "scale": 2}, "about": {"doc": "d", "params": {"a": "b"}, "tags": ["t"]}}
    registry.register("bills-value", Schema(OF_CONFLUENT, "PROTOBUF"))
    write = registry.run(written_by(registry.inner, registry.latest("bills-value")))
    written = write(bill)
    read: Any = registry.run(Protobuf[Any](registry).deserialize("bills", written))
    assert (read.sum.value, read.sum.scale, read.about.params["a"]) == (b"\x04\xd2", 2, "b")
    assert registry.run(AnySchema(registry).deserialize("bills", written)) == bill


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_imports_are_registered_in_the_context_of_what_imports_them(registry: SchemaRegistry, framing: Any) -> None:
    def subject(topic: str, part: str, record: str | None) -> str:
        return f":.{topic}:{topic}-{part}"

    topic = f"imports-{framing}"
    order = message_classes()["Order"](id=1, to={"town": "x"})
    serde = Protobuf[Any](registry, subject=subject, framing=framing)
    headers: list[Any] = []
    written = registry.run(serde.serialize_part("value", topic, order, headers))
    read: Any = registry.run(serde.deserialize_part("value", topic, written, headers))
    assert (read.id, read.to.town) == (1, "x")
    (reference,) = registry.latest(subject(topic, "value", None)).schema.references
    assert reference.subject == f":.{topic}:{reference.name}"
    assert registry.latest(reference.subject).version == 1
