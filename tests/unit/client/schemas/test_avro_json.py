"""Avro's values as JSON and back."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kavka.client.schemas.avro_json import meant, said

SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
            {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED"]}},
            {"name": "next", "type": ["null", "All"], "default": None},
            {"name": "list", "type": {"type": "array", "items": ["int", "string", "Two"]}, "default": []},
            {"name": "map", "type": {"type": "map", "values": "Colour"}, "default": {}},
        ],
    }
)
VALUE: dict[str, Any] = {
    "at": "2026-01-02T03:04:05.678000+00:00",
    "day": "2026-01-02",
    "price": "12.34",
    "id": "12345678-1234-5678-1234-567812345678",
    "raw": "\x00\xff",
    "colour": "RED",
    "next": None,
    "list": [1, "two"],
    "map": {"k": "RED"},
}


def test_what_json_says_is_written_and_said_again() -> None:
    value = {**VALUE, "next": VALUE}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, meant(SCHEMA, json.loads(json.dumps(value))))
    out.seek(0)
    found: Any = fastavro.schemaless_reader(out, SCHEMA, None)
    assert found["price"] == Decimal("12.34")
    assert found["id"] == uuid.UUID(VALUE["id"])
    assert json.loads(json.dumps(said(found))) == value


def test_times_may_be_numbers_and_are_utc_unless_they_say() -> None:
    number = meant(SCHEMA, {**VALUE, "at": 1000})["at"]
    assert number == 1000
    assert meant(SCHEMA, {**VALUE, "at": "1970-01-01T00:00:01"})["at"] == datetime.datetime(
        1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at": "soon"}, r"\$\.at: 'soon' is no timestamp-millis"),
        ({"price": "much"}, r"\$\.price: 'much' is no decimal"),
        ({"id": "x"}, r"\$\.id: 'x' is no uuid"),
        ({"day": True}, r"\$\.day: int was expected, not True"),
        ({"colour": "BLUE"}, r"\$\.colour: 'BLUE' is none of RED"),
        ({"raw": "€€"}, r"\$\.raw: fixed was expected"),
        ({"list": {}}, r"\$\.list: a list was expected"),
        ({"map": {"k": "X"}}, r"\$\.map\.k"),
        ({"list": [1 << 40, None]}, r"\$\.list\[0\]: int was expected"),
        ({"next": {"at": 1}}, r"\$\.next: the field 'day' is missing"),
        ({"other": 1}, r"\$: All has no field 'other'"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        meant(SCHEMA, {**VALUE, **change})


@pytest.mark.parametrize(("schema", "value"), [("long", 1), ("string", "a"), ("null", None), ("double", 1.5)])
def test_schemas_need_not_be_records(schema: str, value: Any) -> None:
    assert meant(schema, value) == value
    with pytest.raises(ValueError, match="was expected"):
        meant(schema, [])
