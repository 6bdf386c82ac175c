"""Decoding values: good rows become columns, bad ones are named, and one bad row never spoils its neighbours."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.spark.ddl import SchemaError, parse_schema
from kavka.spark.json_values import JsonDecoder
from kavka.spark.values import AvroDecoder, ProtobufDecoder, TextDecoder, avro_type


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


def test_text_is_utf8() -> None:
    rows, bad = TextDecoder().decode(["ž".encode(), b"\xff", None])
    assert rows.to_pylist() == ["ž", None, None]
    assert [index for index, _ in bad] == [1]


SCHEMA: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


def test_avro_that_is_too_short_or_too_long_is_bad() -> None:
    decoder = AvroDecoder(SCHEMA, 0)
    rows, bad = decoder.decode([b"\x02", b"", b"\x02\x02"])
    assert rows.to_pylist() == [{"id": 1}, None, None]
    assert [index for index, _ in bad] == [1, 2]


def test_avro_behind_a_schema_id_needs_one() -> None:
    rows, bad = AvroDecoder(SCHEMA, 5).decode([b"\0\0\0\0\1\x02", b"\x02"])
    assert rows.to_pylist() == [{"id": 1}, None]
    assert "schema id" in bad[0][1]


def test_avro_types_that_columns_cannot_hold_are_refused() -> None:
    assert avro_type(["null", {"type": "int", "logicalType": "date"}]) == pa.date32()
    assert avro_type({"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}) == pa.decimal128(8, 2)
    with pytest.raises(SchemaError, match="union"):
        avro_type(["int", "string"])


def test_a_descriptor_set_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError):
        ProtobufDecoder("AAAA", "shop.Order")
