"""The compiled reader of JSON beside the rules it stands for: the same rows and the same refusals, whatever comes."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.kernels.json import JsonColumns
from kavka.spark.ddl import parse_schema
from kavka.spark.json_batches import JsonDecoder
from kavka.spark.json_values import RowDecoder
from scale import rounds

compiled = pytest.mark.skipif(not JsonColumns.READS, reason="the kernel json is not compiled: every row is left")

LEAVES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(6,2)", "DECIMAL(38,10)"),
    *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
)
NAMES = ("a", "b", "a b", "é", "long_name_of_a_field")
TOKENS = (
    *("0", "-0", "1", "-1", "127", "128", "-128", "-129", "32767", "-32769", "2147483647", "-2147483649", "7.0"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "0.1", "-0.0"),
    *("18446744073709551615", "123456789012345678901", "1e3", "1E-3", "1e400", "-1e400", "1e-400", "12.345", "12.340"),
    *(
        "9007199254740993",
        "0.30000000000000004",
        "179769313486231570000000000000000",
        "4.9e-324",
        "1.7976931348623157e308",
    ),
    *(
        "9999.99",
        "9999.995",
        "10000.00",
        "01",
        "+1",
        ".5",
        "5.",
        "1e",
        "1e+",
        "-",
        "0x10",
        "NaN",
        "Infinity",
        "-Infinity",
    ),
    *("true", "false", "null", "tru", "nul", "True", '""', '"a"', '"é\U0001f600"', r'"é😀\n\t\"\\\/\b\f\r"'),
    *(r'"\ud800"', r'"\udc00\ud800"', r'"\ud83dx"', r'"\x"', r'"\u12"', '"\t"', '"eA=="', '"eB=="', '"eHl6"', '"eHk="'),
    *(
        '"e==="',
        '"===="',
        '"1.5"',
        '"1,5"',
        '"NaN"',
        '"-INF"',
        '"2026-01-02"',
        '"2026-1-2"',
        '"2026-02-29"',
        '"2024-02-29"',
    ),
    *(
        '"0000-01-01"',
        '"0001-01-01"',
        '"9999-12-31"',
        '"1969-12-31"',
        '"2026-01-02T03:04:05Z"',
        '"2026-01-02 03:04:05"',
    ),
    *(
        '"2026-01-02T03:04:05.123456Z"',
        '"2026-01-02T03:04:05.1234567Z"',
        '"2026-01-02T03:04:05.Z"',
        '"2026-01-02T03:04"',
    ),
    *(
        '"2026-01-02T03:04:05+02:00"',
        '"2026-01-02T03:04:05.5-17:59"',
        '"2026-01-02T03:04:05+18:00"',
        '"2026-01-02T23:59:60Z"',
    ),
    *(
        '"0001-01-01T00:00:00+01:00"',
        '"9999-12-31T23:59:59.999999-01:00"',
        '"9999-12-31T23:59:59.999999Z"',
        '"2026-01-02x"',
    ),
    *('"2026-01-02T24:00:00Z"', '"1600-03-01T00:00:00Z"', '"2026-01-02T03:04:05+0200"', "253402300799", "253402300800"),
    *("-62135596800", "-62135596801", "[]", "{}", "[1,null]", '{"a":1}', '{"a":{"a":"x"}}', '[{"a":1},{"b":[2]}]'),
    *('{"a":1,"a":2}', '{"a":null}', "[1,]", "[,]", '{"a":1,}', '{"a"}', '{"a":}', "{a:1}", "[[1],[2]]", "[1 2]"),
)


def _type(draw: random.Random, depth: int) -> str:
    kind = draw.randrange(8 if depth else 5)
    if kind < 5:
        return draw.choice(LEAVES)
    inner = _type(draw, depth - 1)
    if kind == 5:
        return f"ARRAY<{inner}>"
    return f"MAP<STRING, {inner}>" if kind == 6 else f"STRUCT<{_fields(draw, depth - 1)}>"


def _fields(draw: random.Random, depth: int) -> str:
    names = draw.sample(NAMES, draw.randrange(1, len(NAMES) + 1))
    return ", ".join(f"`{name}` {_type(draw, depth)}{' NOT NULL' * (draw.random() < 0.2)}" for name in names)


def _fitting(draw: random.Random, kind: Any) -> str:
    """A value that has a good chance to fit, with spaces in odd places."""
    space = draw.choice(("", "", "", " ", "\n\t "))
    if draw.random() < 0.04:
        return draw.choice(TOKENS)
    if pa.types.is_struct(kind):
        fields = [(field.name, _fitting(draw, field.type)) for field in kind if draw.random() < 0.9]
        if draw.random() < 0.3:
            fields.append((draw.choice(("other", "a", "B")), draw.choice(TOKENS)))
        draw.shuffle(fields)
        shown = [(json.dumps(name, ensure_ascii=draw.random() < 0.1), text) for name, text in fields]
        return "{" + ",".join(f"{space}{name}{space}:{space}{text}{space}" for name, text in shown) + "}"
    if pa.types.is_list(kind):
        return "[" + f"{space},".join(_fitting(draw, kind.value_type) for _ in range(draw.randrange(4))) + "]"
    if pa.types.is_map(kind):
        keys = [draw.choice(("k", "l", "é", 'q"')) for _ in range(draw.randrange(4))]
        return "{" + ",".join(f"{json.dumps(key)}:{_fitting(draw, kind.item_type)}" for key in keys) + "}"
    if pa.types.is_boolean(kind):
        return draw.choice(("true", "false"))
    if pa.types.is_integer(kind):
        return str(draw.randrange(-(1 << draw.randrange(1, kind.bit_width)), 1 << draw.randrange(1, kind.bit_width)))
    if pa.types.is_floating(kind):
        return draw.choice(
            (repr(draw.uniform(-1e6, 1e6)), repr(math.exp(draw.uniform(-740, 709))), str(draw.randrange(1 << 60)))
        )
    if pa.types.is_decimal(kind):
        return f"{draw.randrange(-9999, 9999)}.{draw.randrange(100):02}"
    if pa.types.is_temporal(kind):
        day = f"{draw.randrange(1, 10000):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 32):02}"
        time = f"{draw.choice('T ')}{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}"
        rest = draw.choice(("", ".5", ".123456", ".1234567"))
        zone = (
            draw.choice(("", "Z", "+05:30", "-11:00", " UTC", "+01"))
            if kind.equals(pa.timestamp("us", tz="UTC"))
            else ""
        )
        return f'"{day}"' if pa.types.is_date(kind) else f'"{day}{time}{rest}{zone}"'
    text = draw.choice(("x", "eA==", "é", "\U0001f600", 'quo"te', "line\n", "\u2028", "a" * 70))
    return json.dumps(text, ensure_ascii=draw.random() < 0.5)


def _document(draw: random.Random, kind: Any) -> bytes | None:
    if draw.random() < 0.03:
        return None
    value = bytearray(
        f"{draw.choice(('', ' ', chr(10)))}{_fitting(draw, kind)}{draw.choice(('', '', ' ', 'x'))}".encode()
    )
    if value and draw.random() < 0.1:  # a byte is another one, or the end is missing
        at = draw.randrange(len(value))
        if draw.random() < 0.5:
            value[at] = draw.randrange(256)
        else:
            del value[at:]
    return bytes(value)


def _same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right)  # NaN and -0.0, too


@compiled
def test_random_values_of_random_schemas_are_read_as_the_rules_say() -> None:
    draw = random.Random(23)
    good = 0
    for _ in range(rounds(full=6000, ci=200)):
        kind = parse_schema(_fields(draw, 2))
        values = [_document(draw, kind) for _ in range(40)]
        array, bad = JsonDecoder(kind).decode(values)
        wanted, refused = RowDecoder(kind).decode(values)
        array.validate(full=True)
        assert array.type == wanted.type
        assert bad == refused
        for value, ours, rules in zip(values, array.to_pylist(), wanted.to_pylist(), strict=True):
            assert _same(ours, rules), f"{value!r} as {kind}"
        good += len(values) - len(bad)
    assert good > 3000  # of 8000


@compiled
def test_every_token_as_every_type() -> None:
    for leaf in (*LEAVES, "ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<a: INT>", "MAP<STRING, STRUCT<a: STRING>>"):
        kind = parse_schema(f"v {leaf}")
        values = [f'{{"v":{token}}}'.encode() for token in TOKENS]
        array, bad = JsonDecoder(kind).decode(values)
        wanted, refused = RowDecoder(kind).decode(values)
        assert bad == refused
        for value, ours, rules in zip(values, array.to_pylist(), wanted.to_pylist(), strict=True):
            assert _same(ours, rules), f"{value!r} as {leaf}"


@compiled
@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60).map(lambda more: b'{"a":' + more), max_size=20), st.lists(st.text(), max_size=5))
def test_any_bytes(values: list[bytes], texts: list[str]) -> None:
    kind = parse_schema("a STRING, b ARRAY<STRING>")
    everything = [
        *values,
        *(json.dumps({"b": texts, "a": text}, ensure_ascii=False).encode(errors="replace") for text in texts),
    ]
    array, bad = JsonDecoder(kind).decode(everything)
    wanted, refused = RowDecoder(kind).decode(everything)
    assert bad == refused
    assert array.to_pylist() == wanted.to_pylist()


@compiled
def test_one_misfit_is_all_that_is_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = JsonDecoder(parse_schema("a INT, t STRING"))
    seen: list[bytes | None] = []
    decode = decoder._row_by_row.decode

    def watched(values: Any) -> Any:
        seen.extend(values)
        return decode(values)

    monkeypatch.setattr(decoder._row_by_row, "decode", watched)
    values = [b'{"a":%d,"t":"x"}' % number for number in range(5000)]
    values[1234] = b'{"a":1.5}'
    values[2345] = b'{"t":{"x": 1.50}}'
    array, bad = decoder.decode(values)
    assert seen == [values[1234], values[2345]]
    assert bad == [(1234, "field 'a': 1.5 does not fit an INT")]
    assert array[2345].as_py() == {"a": None, "t": '{"x":1.50}'}
    assert array.take(pa.array([0, 4999])).to_pylist() == [{"a": 0, "t": "x"}, {"a": 4999, "t": "x"}]


@compiled
def test_a_part_of_an_array_is_read_where_it_is() -> None:
    decoder = JsonDecoder(parse_schema("a INT"))
    whole = pa.array([b'{"a":0}', None, b'{"a":2}', b"bad", b'{"a":4}', None], pa.binary())
    array, bad = decoder.decode(whole.slice(1, 4))
    assert array.to_pylist() == [None, {"a": 2}, None, {"a": 4}]
    assert [index for index, _ in bad] == [2]
    assert decoder.decode(whole.slice(0, 0))[0].to_pylist() == []
    assert decoder.decode(pa.array([None, None], pa.binary()))[0].to_pylist() == [None, None]


@compiled
def test_two_fields_of_one_name_are_left_to_the_rules() -> None:
    kind = pa.struct([pa.field("a", pa.int32()), pa.field("a", pa.string())])
    decoder = JsonDecoder(kind)
    assert decoder._columns is None


@compiled
def test_offsets_beyond_the_data_are_refused() -> None:
    from kavka.spark.json_batches import _planned

    nodes: list[Any] = []
    assert _planned(parse_schema("a INT"), -1, b"", True, nodes)
    columns = JsonColumns(nodes)
    for offsets, rows in ((b"\0" * 4, 1), (b"\0\0\0\0\xff\0\0\0", 1), (b"\x05\0\0\0\x01\0\0\0", 1), (b"\0" * 8, -1)):
        with pytest.raises(ValueError, match="array"):
            columns.read(offsets, b'{"a":1}', rows, 0, None)
    with pytest.raises(ValueError, match="validity"):
        columns.read(b"\0" * 8, b"", 1, 0, b"")
