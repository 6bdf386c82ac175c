"""Decoding values: good rows become columns, bad ones are named, and one bad row never spoils its neighbours."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import pickle
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict

from kavka.spark.datasource import KavkaDataSource
from kavka.spark.ddl import SchemaError, parse_schema
from kavka.spark.json_batches import JsonDecoder
from kavka.spark.json_values import RowDecoder, _exactly
from kavka.spark.options import SourceOptions, source_options
from kavka.spark.values import AvroDecoder, ProtobufDecoder, TextDecoder
from kavka.spark.values import decoder as made_decoder


def test_ddl_becomes_arrow_types() -> None:
    kind = parse_schema("id BIGINT NOT NULL, `a b`: STRING, tags ARRAY<STRING>, m MAP<STRING, DECIMAL(10, 2)>, "
                        "s STRUCT<x: INT, y: TIMESTAMP>")  # fmt: skip
    assert kind == pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("a b", pa.string()),
            pa.field("tags", pa.list_(pa.field("element", pa.string()))),
            pa.field("m", pa.map_(pa.string(), pa.decimal128(10, 2))),
            pa.field("s", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.timestamp("us", tz="UTC"))])),
        ]
    )


def test_the_json_of_a_spark_schema_is_read_too() -> None:
    text = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
    assert parse_schema(text) == pa.struct([pa.field("id", pa.int64())])


@pytest.mark.parametrize(
    "text", ["", "id", "id BIGINT,", "id BIGINT name STRING", "a ARRAY<INT", "a NUMBER", "; x", "{}"]
)
def test_a_schema_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_json_is_converted_to_the_schemas_types() -> None:
    decoder = JsonDecoder(
        parse_schema(
            "at TIMESTAMP, day DATE, price DECIMAL(6, 2), raw BINARY, n DOUBLE, tags ARRAY<DATE>, m MAP<STRING, INT>"
        )
    )
    value = (
        b'{"at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "price": 1.5, "raw": "eA==", "n": 3, '
        b'"tags": ["2026-01-01"], "m": {"a": 1}, "unknown": {}}'
    )
    rows, bad = decoder.decode([value, b'{"at": 1700000000}', None])
    assert bad == []
    first, second, third = rows.to_pylist()
    assert first == {
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "day": dt.date(2026, 1, 2),
        "price": Decimal("1.50"),
        "raw": b"x",
        "n": 3.0,
        "tags": [dt.date(2026, 1, 1)],
        "m": [("a", 1)],
    }
    assert second["at"] == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    assert third is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "JSONDecodeError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"[1]", "a JSON object was expected"),
        (b'{"id": "x", "at": null}', "field 'id': \"x\" does not fit a BIGINT"),
        (b'{"id": 1.5}', "field 'id': 1.5 does not fit a BIGINT"),
        (b'{"id": 1.0}', "field 'id': 1.0 does not fit a BIGINT"),
        (b'{"id": true}', "field 'id': true does not fit a BIGINT"),
        (b'{"id": 1, "at": 1700000000000}', "not milliseconds?"),
        (b'{"at": "2026-01-01"}', "field 'id' is missing"),
        (b'{"id": 1, "at": "yesterday"}', "'yesterday' is not a date and time"),
        (b'{"id": 99999999999999999999}', "does not fit a BIGINT"),
        (b'{"id": "\\ud800"}', "\\ud800"),
        (b'{"id": ' + b"[" * 5000 + b"]" * 5000 + b"}", "recursion"),
    ],
)
def test_a_bad_json_value_is_named_and_its_neighbours_stay(value: bytes, reason: str) -> None:
    decoder = JsonDecoder(parse_schema("id BIGINT NOT NULL, at TIMESTAMP"))
    rows, bad = decoder.decode([b'{"id": 1}', value, b'{"id": 3}'])
    assert [index for index, _ in bad] == [1]
    assert reason in bad[0][1]
    assert [row and row["id"] for row in rows.to_pylist()] == [1, None, 3]


def test_a_misfit_spoils_its_row_and_no_other() -> None:
    decoder = JsonDecoder(
        parse_schema("n INT, l ARRAY<STRUCT<x: INT NOT NULL>>, m MAP<STRING, ARRAY<BIGINT>>, t STRING")
    )
    values = [
        b'{"n": 1, "l": [{"x": 1}, null], "m": {"a": [1, null]}, "t": 1.50}',
        b'{"n": 2, "l": [{"x": 1.5}]}',
        None,
        b'{"n": 3, "l": [{}]}',
        b'{"n": 4, "m": {"a": [1], "b": [2.5]}}',
        b'{"n": 5, "l": [], "m": {}, "t": {"a": [1.0, "b"]}}',
        b'{"n": 6, "t": "\\ud800"}',
        b"no json",
    ]
    rows, bad = decoder.decode(values)
    assert rows.to_pylist() == [
        {"n": 1, "l": [{"x": 1}, None], "m": [("a", [1, None])], "t": "1.50"},
        *[None] * 4,
        {"n": 5, "l": [], "m": [], "t": '{"a":[1.0,"b"]}'},
        *[None] * 2,
    ]
    assert [index for index, _ in bad] == [1, 3, 4, 6, 7]
    assert [reason.partition(":")[0] for _, reason in bad[:3]] == [
        "field 'l[].x'",
        "field 'l[].x' is missing",
        "field 'm{}[]'",
    ]


def test_what_must_not_be_null_is_not() -> None:
    array = {"type": "array", "elementType": "long", "containsNull": False}
    many = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in (("a", array), ("m", many))
    ]
    decoder = JsonDecoder(parse_schema(json.dumps({"type": "struct", "fields": fields})))
    rows, bad = decoder.decode([b'{"a": [1], "m": {"x": 1}}', b'{"a": [1, null]}', b'{"m": {"x": null}}', b"{}"])
    assert rows.to_pylist() == [{"a": [1], "m": [("x", 1)]}, None, None, {"a": None, "m": None}]
    assert bad == [(1, "field 'a[]' is missing"), (2, "field 'm{}' is missing")]


@pytest.mark.parametrize("schema", ["m MAP<INT, INT>", "a ARRAY<MAP<BIGINT, STRING>>"])
def test_a_map_whose_keys_json_cannot_have_is_refused(schema: str) -> None:
    with pytest.raises(SchemaError, match="keys of JSON's objects are texts"):
        JsonDecoder(parse_schema(schema))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.none() | st.binary(max_size=12) | JSON.map(lambda value: json.dumps(value).encode()), max_size=6))
def test_no_value_makes_the_decoder_fail_or_lose_count(values: list[bytes | None]) -> None:
    decoder = JsonDecoder(parse_schema("a BIGINT, b STRING, c ARRAY<DOUBLE>"))
    rows, bad = decoder.decode(values)
    assert len(rows) == len(values)
    rejected = {index for index, _ in bad}
    for index, value in enumerate(values):
        if value is None:
            assert index not in rejected
        if index in rejected:
            assert not rows[index].is_valid


@given(
    st.lists(st.binary(max_size=12) | JSON.map(lambda value: json.dumps({"a": value, "b": value}).encode()), max_size=6)
)
def test_the_quick_parser_reads_what_the_exact_one_reads(values: list[bytes]) -> None:
    for schema in (
        "a BIGINT, b STRING",
        "a STRUCT<a: INT, b: STRING>, b ARRAY<STRING>",
        "a DOUBLE, b MAP<STRING, FLOAT>",
    ):
        quick, exact = (RowDecoder(parse_schema(schema)) for _ in range(2))
        exact._parse = _exactly
        (rows, bad), (expected, wrong) = quick.decode(values), exact.decode(values)
        assert rows.equals(expected)
        assert [index for index, _ in bad] == [index for index, _ in wrong]


def test_text_is_utf8() -> None:
    rows, bad = TextDecoder().decode(["ž".encode(), b"\xff", None])
    assert rows.to_pylist() == ["ž", None, None]
    assert [index for index, _ in bad] == [1]


SCHEMA: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


def options_for(**given: str) -> SourceOptions:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **named}, streaming=False)


def written(schema: Any, *rows: Any) -> list[bytes]:
    values = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        values.append(out.getvalue())
    return values


def test_avro_that_is_too_short_or_too_long_is_bad() -> None:
    decoder = AvroDecoder(SCHEMA)
    rows, bad = decoder.decode([b"\x02", b"", b"\x02\x02"])
    assert rows.to_pylist() == [{"id": 1}, None, None]
    assert [index for index, _ in bad] == [1, 2]


def framed(**given: str) -> Any:
    return made_decoder(options_for(value_framing="confluent", value_schema_id="7", **given))


def test_a_framed_value_of_another_schema_is_bad_even_if_its_bytes_would_fit() -> None:
    known = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "long"}]}
    turned = {**known, "fields": known["fields"][::-1]}
    row = {"a": 1, "b": 2}
    values = [b"\0\0\0\0\7" + written(known, row)[0], b"\0\0\0\0\x08" + written(turned, row)[0], b"\x02", None, b"\0\0"]
    rows, bad = framed(value_format="avro", value_schema=json.dumps(known)).decode(values)
    assert rows.to_pylist() == [row, None, None, None, None]
    assert bad == [
        (1, "the value was written with schema 8, and value.schema is 7"),
        (2, "the value has no schema id in front"),
        (4, "the value has no schema id in front"),
    ]


def test_framed_json_is_read_behind_its_id() -> None:
    decoder = framed(value_format="json", value_schema="id BIGINT")
    rows, bad = decoder.decode(
        [b'\0\0\0\0\7{"id": 1}', b'\0\0\0\0\x08{"id": 1}', b'{"id": 1}', b'\0\0\0\0\7{"id": "x"}']
    )
    assert rows.to_pylist() == [{"id": 1}, None, None, None]
    assert [index for index, _ in bad] == [1, 2, 3]


def test_framed_protobuf_must_be_the_message_that_is_read() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="First").field.add(name="x", number=1, type=3, label=1)
    outer = file.message_type.add(name="Outer")
    outer.nested_type.add(name="MEntry").options.map_entry = True
    for name, number, kind in (("key", 1, 9), ("value", 2, 9)):
        outer.nested_type[0].field.add(name=name, number=number, type=kind, label=1)
    outer.nested_type.add(name="Inner").field.add(name="id", number=1, type=3, label=1)
    described = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()
    head, body = b"\0\0\0\0\7", b"\x08\x05"
    for message, place, other in (("shop.Outer.Inner", b"\4\2\2", b"\4\2\0"), ("shop.First", b"\0", b"\2\2")):
        decoder = framed(value_format="protobuf", value_schema=described, value_message=message)
        values = [head + place + body, head + other + body, b"\0\0\0\0\x08" + place + body, body, head + b"\x80"]
        rows, bad = decoder.decode(values)
        assert [list(row.values()) if row else None for row in rows.to_pylist()] == [[5], None, None, None, None]
        assert [index for index, _ in bad] == [1, 2, 3, 4]
        assert "of its schema, not" in bad[0][1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"value_framing": "confluent", "value_format": "avro"}, "needs option value.schema.id"),
        (
            {"value_framing": "confluent", "value_format": "avro", "value_schema_id": "x"},
            "needs option value.schema.id",
        ),
        ({"value_framing": "confluent", "value_schema_id": "7"}, "is for value.format json, avro and protobuf"),
        ({"value_framing": "confluent", "value_schema_id": "7", "value_format": "text"}, "not text"),
        ({"value_format": "json", "value_schema_id": "7"}, "is for framed values"),
    ],
)
def test_framing_that_would_not_be_applied_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options_for(**given)


def avro_rows(schema: Any, *rows: Any) -> tuple[Any, list[Any]]:
    decoder = AvroDecoder(schema)
    array, bad = decoder.decode(written(schema, *rows))
    assert bad == []
    return decoder.kind, array.to_pylist()


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def test_an_avro_type_that_has_a_name_can_be_used_again() -> None:
    address = {"type": "record", "name": "Address", "namespace": "shop", "fields": [field("city", "string")]}
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    fields = [
        field("home", address),
        field("work", ["null", "shop.Address"]),
        field("one", colour),
        field("two", "Colour"),
    ]
    kind, rows = avro_rows(
        {"type": "record", "name": "Person", "fields": fields},
        {"home": {"city": "a"}, "work": {"city": "b"}, "one": "RED", "two": "BLUE"},
        {"home": {"city": "c"}, "work": None, "one": "RED", "two": "RED"},
    )
    assert kind.field("work").type == kind.field("home").type == pa.struct([pa.field("city", pa.string())])
    assert [(row["home"], row["work"], row["two"]) for row in rows] == [
        ({"city": "a"}, {"city": "b"}, "BLUE"),
        ({"city": "c"}, None, "RED"),
    ]


def test_an_avro_union_has_a_column_for_each_of_its_types() -> None:
    first = {"type": "record", "name": "One", "fields": [field("x", "int")]}
    second = {"type": "record", "name": "Two", "fields": [field("x", "int")]}
    fields = [
        field("number", ["null", "int", "long"]),
        field("ratio", ["float", "double"]),
        field("any", ["null", "int", "long", "string", "bytes"]),
        field("shape", [first, second]),
        field("many", {"type": "array", "items": ["string", "boolean"]}),
    ]
    kind, rows = avro_rows(
        {"type": "record", "name": "U", "fields": fields},
        {"number": 1 << 40, "ratio": 1.5, "any": 7, "shape": ("Two", {"x": 2}), "many": ["a", True]},
        {"number": None, "ratio": 2.5, "any": None, "shape": ("One", {"x": 1}), "many": []},
        {"number": 3, "ratio": 1e300, "any": "t", "shape": ("One", {"x": 1}), "many": []},
    )
    assert (kind.field("number").type, kind.field("ratio").type) == (pa.int64(), pa.float64())
    assert [each.name for each in kind.field("any").type] == ["member0", "member1", "member2", "member3"]
    assert [row["number"] for row in rows] == [1 << 40, None, 3]
    assert rows[0]["any"] == {"member0": 7, "member1": None, "member2": None, "member3": None}
    assert rows[1]["any"] is None
    assert rows[2]["any"]["member2"] == "t"
    assert [row["shape"] for row in rows[:2]] == [
        {"member0": None, "member1": {"x": 2}},
        {"member0": {"x": 1}, "member1": None},
    ]
    assert rows[0]["many"] == [{"member0": "a", "member1": None}, {"member0": None, "member1": True}]


def test_avros_logical_types_become_columns() -> None:
    name = uuid.UUID(int=7)
    fields = [
        field("day", ["null", {"type": "int", "logicalType": "date"}]),
        field("price", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}),
        field("name", {"type": "string", "logicalType": "uuid"}),
        field("clock", {"type": "int", "logicalType": "time-millis"}),
        field("map", {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}),
    ]
    at = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    kind, rows = avro_rows(
        {"type": "record", "name": "L", "fields": fields},
        {"day": at.date(), "price": Decimal("1.50"), "name": name, "clock": dt.time(0, 0, 1), "map": {"a": at}},
    )
    assert kind.field("price").type == pa.decimal128(8, 2)
    assert rows == [{"day": at.date(), "price": Decimal("1.50"), "name": str(name), "clock": 1000, "map": [("a", at)]}]


def test_an_avro_number_of_a_hundred_thousand_digits_is_bad_before_it_is_read() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    schema = {"type": "record", "name": "R", "fields": [field("price", price)]}
    size = written({"type": "record", "name": "N", "fields": [field("n", "long")]}, {"n": 50_000})[0]
    rows, bad = AvroDecoder(schema).decode([size + b"\x7f" * 50_000])
    assert rows.to_pylist() == [None]
    ((_, why),) = bad
    assert "a decimal has 50000 bytes" in why


def test_an_avro_type_that_contains_itself_is_refused() -> None:
    node = {"type": "record", "name": "Node", "fields": [field("next", ["null", "Node"])]}
    with pytest.raises(SchemaError, match="'Node' contains itself"):
        AvroDecoder(node)


def test_the_file_of_a_schema_is_read_once_and_on_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(SCHEMA))
    monkeypatch.chdir(tmp_path)
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "value.format": "avro", "value.schema": "r.avsc"}
    source = KavkaDataSource(CaseInsensitiveDict(given))
    schema = source.schema()
    assert schema["value"].dataType.simpleString() == "struct<id:bigint>"
    (tmp_path / "r.avsc").unlink()
    elsewhere = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(source)).reader(schema)))
    assert json.loads(elsewhere._options.value_schema) == SCHEMA
    with pytest.raises(SchemaError, match=re.escape(str(tmp_path / "none.avsc"))):
        KavkaDataSource(CaseInsensitiveDict({**given, "value.schema": "none.avsc"})).schema()


def test_a_descriptor_set_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError):
        ProtobufDecoder("AAAA", "shop.Order")
