"""Protobuf messages as rows: the types of columns, what is left out by a writer, and what is none of the message's."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, empty_pb2, struct_pb2, timestamp_pb2

from kavka.spark.ddl import SchemaError
from kavka.spark.protobuf_values import message_class
from kavka.spark.values import ProtobufDecoder

ONE, MANY, NEEDED = 1, 3, 2
DOUBLE, INT64, UINT64, INT32, STRING, MESSAGE, BYTES, UINT32, ENUM = 1, 3, 4, 5, 9, 11, 12, 13, 14


def described(*files: Any) -> str:
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()).decode()


def file(syntax: str, *messages: tuple[str, list[tuple[Any, ...]]]) -> Any:
    """A file of messages, whose fields are a name, a label, a type and, for some, the type's name and the default."""
    made = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax)
    kind = made.enum_type.add(name="Kind")
    kind.value.add(name="NEW", number=0)
    kind.value.add(name="OLD", number=1)
    for name, fields in messages:
        message = made.message_type.add(name=name)
        for number, (field, label, type_, *more) in enumerate(fields, 1):
            added = message.field.add(name=field, number=number, label=label, type=type_)
            if more and more[0]:
                added.type_name = more[0]
            if len(more) > 1:
                added.default_value = more[1]
    return made


def well_known(module: Any) -> Any:
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def test_columns_have_the_types_of_fields_and_hold_all_their_values() -> None:
    fields = [("a", ONE, UINT32), ("b", ONE, UINT64), ("c", ONE, ENUM, ".shop.Kind"), ("d", MANY, BYTES)]
    schema = described(file("proto3", ("Order", fields)))
    decoder = ProtobufDecoder(schema, "shop.Order")
    assert [each.type for each in decoder.kind] == [
        pa.int64(),
        pa.decimal128(20, 0),
        pa.string(),
        pa.list_(pa.field("element", pa.binary())),
    ]
    order = message_class(schema, "shop.Order")
    given = [order(a=(1 << 32) - 1, b=(1 << 64) - 1, c=1, d=[b"\0"]), order(c=7), order()]
    rows, bad = decoder.decode([each.SerializeToString() for each in given])
    assert not bad
    assert rows.to_pylist() == [
        {"a": (1 << 32) - 1, "b": Decimal((1 << 64) - 1), "c": "OLD", "d": [b"\0"]},
        {"a": 0, "b": Decimal(0), "c": "UNKNOWN_ENUM_VALUE_Kind_7", "d": []},
        {"a": 0, "b": Decimal(0), "c": "NEW", "d": []},
    ]


def test_a_timestamp_is_a_moment() -> None:
    made = file("proto3", ("Order", [("at", ONE, MESSAGE, ".google.protobuf.Timestamp")]))
    made.message_type[0].field.add(name="all", number=2, label=MANY, type=MESSAGE).type_name = (
        made.message_type[0].field[0].type_name
    )
    made.dependency.append("google/protobuf/timestamp.proto")
    schema = described(well_known(timestamp_pb2), made)
    order, decoder = message_class(schema, "shop.Order"), ProtobufDecoder(schema, "shop.Order")
    old, new = {"seconds": -1, "nanos": 999_999_999}, {"seconds": 5, "nanos": 1_001}
    given = [order(at=old, all=[new, old]), order(), order(at={"seconds": 1 << 40})]
    rows, bad = decoder.decode([each.SerializeToString() for each in given])
    before, after = (
        dt.datetime.fromisoformat(each) for each in ("1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:05.000001Z")
    )
    assert rows.to_pylist() == [{"at": before, "all": [after, before]}, {"at": None, "all": []}, None]
    assert [(row, "years 1 to 9999" in why) for row, why in bad] == [(2, True)]


def test_what_a_writer_left_out_is_the_default_where_there_is_one() -> None:
    fields = [("x", ONE, INT32, "", "7"), ("y", ONE, STRING), ("k", ONE, ENUM, ".shop.Kind", "OLD")]
    rows, bad = ProtobufDecoder(described(file("proto2", ("Order", fields))), "shop.Order").decode([b"", b"\x08\x00"])
    assert not bad
    assert rows.to_pylist() == [{"x": 7, "y": None, "k": "OLD"}, {"x": 0, "y": None, "k": "OLD"}]


def test_a_message_without_what_it_must_have_is_bad() -> None:
    decoder = ProtobufDecoder(described(file("proto2", ("Order", [("x", NEEDED, INT32)]))), "shop.Order")
    rows, bad = decoder.decode([b"", b"\x08\x01"])
    assert rows.to_pylist() == [None, {"x": 1}]
    assert bad == [(0, "ValueError: required fields are missing: x")]


@pytest.mark.parametrize("inner", [False, True], ids=["outside", "inside"])
def test_a_field_that_was_written_as_another_type_is_bad_and_not_zero(inner: bool) -> None:
    line = ("Line", [("n", ONE, INT64)])
    order = ("Order", [("line", ONE, MESSAGE, ".shop.Line"), ("n", ONE, INT64)])
    decoder = ProtobufDecoder(described(file("proto3", line, order)), "shop.Order")
    text = b"\x0a\x03\x0a\x011" if inner else b"\x12\x011"  # what is a number here is a text there
    newer = b"\x10\x05\x1a\x01z"  # a field that the schema does not have yet
    rows, bad = decoder.decode([text, newer])
    assert rows.to_pylist() == [None, {"line": None, "n": 5}]
    assert [(row, "field n was written as another type" in why) for row, why in bad] == [(0, True)]


def test_a_message_that_contains_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"message google\.protobuf\.Struct contains itself"):
        ProtobufDecoder(described(well_known(struct_pb2)), "google.protobuf.Struct")
    twice = file("proto3", ("A", [("x", ONE, INT32)]), ("B", [(n, ONE, MESSAGE, ".shop.A") for n in "ab"]))
    assert ProtobufDecoder(described(twice), "shop.B").kind.num_fields == 2


def test_fields_that_hold_nothing_have_no_column() -> None:
    made = file("proto3", ("Order", [("none", ONE, MESSAGE, ".google.protobuf.Empty"), ("x", ONE, DOUBLE)]))
    made.dependency.append("google/protobuf/empty.proto")
    rows, bad = ProtobufDecoder(described(well_known(empty_pb2), made), "shop.Order").decode([b"\x0a\x00"])
    assert not bad
    assert rows.to_pylist() == [{"x": 0.0}]
