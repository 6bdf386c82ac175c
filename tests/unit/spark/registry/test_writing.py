"""Rows as framed values: what cannot be written whole is refused."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from kavka.spark.options import ValueFormat
from kavka.spark.protobuf_values import ProtobufReader, message_class
from kavka.spark.registry.fitting import avro_misfit, message_misfit
from kavka.spark.registry.writing import encoder

DECIMAL = pa.decimal128(38, 18)
LINE = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}


def order(**fields: int) -> str:
    """A file with a message Order of such fields, and one that has it in a field."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(fields.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=1)  # type: ignore[arg-type]
    outer = file.message_type.add(name="Outer")
    outer.field.add(name="one", number=1, type=11, label=1, type_name=".Order")  # type: ignore[arg-type]
    outer.field.add(name="many", number=2, type=11, label=3, type_name=".Order")  # type: ignore[arg-type]
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()


def written(form: str, schema: str, kind: Any, *rows: Any) -> list[bytes | None]:
    given = ValueFormat(form, (), "s", "latest", None, False, 7, schema)
    return [value and value[5:] for value in encoder(given)(pa.array(rows, kind))]


def test_decimals_keep_their_digits_in_protobuf() -> None:
    described = order(d=1, f=2, i=3)
    kind = pa.struct([("d", DECIMAL), ("f", DECIMAL), ("i", DECIMAL)])
    (value,) = written("protobuf", described, kind, {"d": Decimal("1.75"), "f": Decimal("2.5"), "i": Decimal("3.000")})
    assert value is not None
    read = message_class(described, "Order").FromString(value[1:])
    assert (read.d, read.f, read.i) == (1.75, 2.5, 3)


def test_a_moment_is_written_as_the_timestamp_that_it_is_read_from() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Order")
    for number, (name, label) in enumerate((("at", 1), ("all", 3)), 1):
        field = message.field.add(name=name, number=number, type=11)
        field.label = label  # type: ignore[assignment]
        field.type_name = ".google.protobuf.Timestamp"
    known = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    described = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[known, file]).SerializeToString()).decode()
    moment = pa.timestamp("us", tz="UTC")
    kind = pa.struct([("at", moment), ("all", pa.list_(pa.field("element", moment)))])
    row = {"at": -1, "all": [0, 1_700_000_000_123_456]}
    (value,) = written("protobuf", described, kind, row)
    assert value is not None
    reader = ProtobufReader(message_class(described, "Order"))
    assert (reader.kind, reader.read(value[1:])) == (kind, row)
    with pytest.raises(ValueError, match="has no zone"):
        written("protobuf", described, pa.struct([("at", pa.timestamp("us"))]), {"at": 0})


@pytest.mark.parametrize("kind", [DECIMAL, pa.float64()])
def test_no_fraction_is_lost_in_an_integer_of_protobuf(kind: Any) -> None:
    with pytest.raises(ValueError, match="a row does not fit the schema of 's'"):
        written("protobuf", order(i=3), pa.struct([("i", kind)]), {"i": Decimal("1.75") if kind == DECIMAL else 1.75})


@pytest.mark.parametrize(
    ("type_", "kind", "fits"),
    [
        ("long", DECIMAL, False),
        ("long", pa.float64(), False),
        (["null", "int"], pa.int64(), False),
        ({"type": "array", "items": "int"}, pa.list_(pa.int64()), False),
        ({"type": "map", "values": ["null", "int"]}, pa.map_(pa.string(), pa.int64()), False),
        ("int", pa.int32(), True),
        (["null", "int", "long"], pa.int64(), True),
        ("double", DECIMAL, True),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}, DECIMAL, True),
    ],
)
def test_numbers_that_avro_would_cut_off_are_refused(type_: Any, kind: Any, fits: bool) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}
    said = avro_misfit(schema, pa.struct([("x", kind)]))
    assert said is None if fits else (said is not None and "do not fit" in said)


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ([("n", pa.int32()), ("gone", pa.string())], "has no field 'line.gone'"),
        ([], "needs a field 'line.n'"),
        ([("n", pa.int32())], None),
    ],
)
def test_the_fields_of_inner_records_are_compared(inner: Any, said: str | None) -> None:
    fields = [{"name": "line", "type": ["null", LINE]}, {"name": "more", "type": {"type": "array", "items": "Line"}}]
    schema = {"type": "record", "name": "R", "fields": fields}
    full = pa.list_(pa.struct([("n", pa.int32())]))
    assert avro_misfit(json.loads(json.dumps(schema)), pa.struct([("line", pa.struct(inner)), ("more", full)])) == said


def test_the_fields_of_inner_messages_are_compared() -> None:
    descriptor = message_class(order(i=3), "Outer").DESCRIPTOR
    good, wrong = pa.struct([("i", pa.int64())]), pa.struct([("i", pa.int64()), ("gone", pa.int64())])
    assert message_misfit(descriptor, pa.struct([("one", good), ("many", pa.list_(good))])) is None
    assert message_misfit(descriptor, pa.struct([("one", wrong)])) == "has no field 'one.gone'"
    assert message_misfit(descriptor, pa.struct([("many", pa.list_(wrong))])) == "has no field 'many[].gone'"


def test_decimals_are_numbers_of_json_with_all_their_digits() -> None:
    kind = pa.struct([("d", DECIMAL), ("l", pa.list_(pa.decimal128(4, 2))), ("m", pa.map_(pa.int32(), pa.string()))])
    digits = "12345678901234567890.123456789012345678"
    (value,) = written("json-schema", "", kind, {"d": Decimal(digits), "l": [Decimal("-1.5"), None], "m": [(1, "ä\n")]})
    assert value == f'{{"d":{digits},"l":[-1.50,null],"m":{{"1":"ä\\n"}}}}'.encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_json_has_no_number_for_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match=r"a row does not fit the schema of 's': JSON has no number"):
        written("json-schema", "", pa.struct([("x", pa.float64())]), {"x": number})
