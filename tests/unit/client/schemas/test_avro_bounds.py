"""Bytes of Avro that would end or stop their reader are refused, and all others are read as ever."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.schemas.avro_bounds import MAX_DECIMAL_BYTES, AvroBounds, _Walk

LIST = {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2_000_000}
EMPTY = {"type": "record", "name": "E", "fields": []}
WIDE = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "W",
        "fields": [
            {"name": "a", "type": "boolean"},
            *({"name": f"e{number}", "type": "E" if number else EMPTY} for number in range(1000)),
        ],
    },
}
KINDS = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "itself", "type": ["null", "All"]},
        {"name": "numbers", "type": {"type": "array", "items": "long"}},
        {"name": "texts", "type": {"type": "map", "values": ["null", "string", "double"]}},
        {"name": "flag", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "small", "type": "float"},
        {"name": "nothing", "type": "null"},
    ],
}


def number(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


@pytest.mark.parametrize(
    ("schema", "data", "why"),
    [
        (LIST, b"\x02" * 5000 + b"\0", "levels deep"),
        (["null", {"type": "array", "items": LIST}], b"\x02\x02" + b"\x02" * 5000 + b"\0\0", "levels deep"),
        (DECIMAL, number(900_000) + b"\x7f" * 900_000, "decimal has 900000 bytes"),
        (WIDE, number(500_000) + b"\0" * 500_000 + b"\0", "more values than bytes"),
        (LIST, b"\x02" * 9, "ends within"),
        (LIST, b"\xff" * 20, "too long"),
        (LIST, b"\x04", "no type 2"),
    ],
)
def test_what_would_end_or_stop_a_reader_is_refused(schema: Any, data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AvroBounds(fastavro.parse_schema(schema)).check(data)


def test_what_is_usual_is_let_pass() -> None:
    AvroBounds(fastavro.parse_schema(LIST)).check(b"\x02" * 100 + b"\0")
    AvroBounds(fastavro.parse_schema(WIDE)).check(number(10) + b"\0" * 10 + b"\0")
    price = number(MAX_DECIMAL_BYTES) + b"\x7f" * MAX_DECIMAL_BYTES
    AvroBounds(fastavro.parse_schema({"type": "array", "items": DECIMAL})).check(number(9) + price * 9 + b"\0")


def values(depth: int) -> st.SearchStrategy[Any]:
    from decimal import Decimal

    return st.fixed_dictionaries(
        {
            "itself": st.none() if depth == 0 else st.none() | values(depth - 1),
            "numbers": st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=4),
            "texts": st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=9) | st.floats(), max_size=3),
            "flag": st.booleans(),
            "kind": st.sampled_from("AB"),
            "fixed": st.binary(min_size=3, max_size=3),
            "price": st.integers(-(10**8), 10**8).map(lambda cents: Decimal(cents).scaleb(-2)),
            "small": st.floats(width=32, allow_nan=False),
            "nothing": st.none(),
        }
    )


@given(values(2), st.integers(0, 200))
def test_all_that_the_library_writes_is_gone_through_to_its_end_and_no_further(value: Any, less: int) -> None:
    schema = fastavro.parse_schema(KINDS)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    data = out.getvalue()
    walk = _Walk(data, AvroBounds(schema)._named)
    walk.through(schema)
    assert walk._at == len(data)
    if less:
        with pytest.raises(ValueError, match="ends"):
            _Walk(data[: -min(less, len(data))], AvroBounds(schema)._named).through(schema)
