"""JSON schemas as columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kavka.spark.ddl import SchemaError
from kavka.spark.registry.json_schema import columns_of, schema_of


def columns(schema: Any, **others: Any) -> dict[str, Any]:
    return {
        field.name: field.type
        for field in columns_of(json.dumps(schema), {n: json.dumps(o) for n, o in others.items()})
    }


def test_each_type_has_its_column() -> None:
    found = columns(
        {
            "type": "object",
            "properties": {
                "i": {"type": "integer"},
                "n": {"type": ["number", "null"]},
                "b": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
                "d": {"type": "string", "format": "date"},
                "t": {"type": "string", "format": "date-time"},
                "u": {"type": "string", "format": "uuid"},
                "a": {"type": "array", "items": {"type": "integer"}},
                "m": {"type": "object", "additionalProperties": {"type": "number"}},
                "o": {"properties": {"x": {"type": "string"}}},
                "free": {"type": "object"},
                "both": {"type": ["string", "integer"]},
                "choice": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "anything": True,
            },
        }
    )
    assert found == {
        "i": pa.int64(),
        "n": pa.float64(),
        "b": pa.bool_(),
        "d": pa.date32(),
        "t": pa.timestamp("us", tz="UTC"),
        "u": pa.string(),
        "a": pa.list_(pa.field("element", pa.int64())),
        "m": pa.map_(pa.string(), pa.float64()),
        "o": pa.struct([pa.field("x", pa.string())]),
        **dict.fromkeys(("free", "both", "choice", "anything"), pa.string()),
    }


def test_references_are_followed() -> None:
    main = {
        "properties": {
            "here": {"$ref": "#/$defs/a~1b"},
            "there": {"$ref": "other.json#/definitions/x"},
            "whole": {"$ref": "other.json"},
        },
        "$defs": {"a/b": {"type": "integer"}},
    }
    other = {
        "type": "object",
        "properties": {"y": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"type": "boolean"}},
    }
    assert columns(main, **{"other.json": other}) == {
        "here": pa.int64(),
        "there": pa.bool_(),
        "whole": pa.struct([pa.field("y", pa.bool_())]),
    }


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string"}, "not that of an object"),
        ({"properties": {"x": {"$ref": "#/nowhere"}}}, "is not there"),
        ({"properties": {"x": {"$ref": "other.json"}}}, "not among its references"),
        ({"properties": {"x": {"$ref": "#"}}}, "contains itself"),
        ({"properties": {"x": {"type": "text"}}}, "no type 'text'"),
    ],
)
def test_what_no_column_can_be_made_of_is_told(schema: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        columns_of(json.dumps(schema), {})


def test_the_schema_of_columns_gives_the_columns() -> None:
    kind = pa.struct(
        [
            pa.field("i", pa.int64()),
            pa.field("t", pa.timestamp("us", tz="UTC")),
            pa.field("d", pa.date32()),
            pa.field(
                "l", pa.list_(pa.field("element", pa.struct([pa.field("s", pa.string()), pa.field("b", pa.bool_())])))
            ),
            pa.field("m", pa.map_(pa.string(), pa.float64())),
        ]
    )
    assert columns_of(schema_of(kind), {}) == kind
