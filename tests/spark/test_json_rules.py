"""JSON by `value.format` beside Spark's `from_json`: every value with every type gives the same, or is refused by both.

Where the two differ there is a reason, and the pair stands in DIFFERENT.
"""

from __future__ import annotations

import json
import math
import random
from typing import Any, Final

import pyarrow as pa

from kavka.spark.ddl import parse_schema
from kavka.spark.json_batches import JsonDecoder
from scale import rounds

BAD: Final = "bad"
TYPES: Final = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(6,2)", "DECIMAL(20,0)"),
    *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
    *("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<ARRAY<DOUBLE>>", "MAP<STRING,INT>", "STRUCT<x: INT>"),
    *("ARRAY<STRUCT<x: INT>>", "STRUCT<x: ARRAY<BIGINT>>", "MAP<STRING,STRUCT<x: STRING>>"),
)
NUMBERS: Final = (
    *("0", "1", "-1", "127", "128", "255", "256", "-128", "-129", "32767", "32768", "40000", "2147483647"),
    *("2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "16777217", "1767323045", "253402300799", "123456789012345678901"),
    *("1.0", "1.5", "-1.5", "1e3", "1E400", "-1e400", "1e-400", "-0", "-0.0", "12345.678", "1234.565", "1234.575"),
    *("0.005", "99999.99", "1e40", "0.1", "9999.994", "9999.995", "01", "+1", ".5", "5.", "0x10", "1_0"),
    *("NaN", "Infinity", "-Infinity"),
)
TEXTS: Final = (
    *("", "1", "1.5", "-2", "1e2", "+1", ".5", "5.", "1,000", "1,5", " 1", "abc", "true", "null", "é", "\\u0041"),
    *("NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF", "nan", "eA==", "eA", "e A=", "!!", "AAAA"),
    *("2026-01-02", "2026-1-2", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02 03:04:05.123456789"),
    *("2026-01-02T03:04:05.1+02:00", "2026-01-02T03:04", "2026-01-02T03:04Z", "2026-01-02T03", "2026", "2026-01"),
    *("03:04:05", "T03:04:05", "2026-01-02T03:04:05+0200", "2026-01-02T03:04:05+02", "2026-01-02T03:04:05+2"),
    *("2026-01-02T03:04:05-02:30", "2026-01-02T03:04:05+19:00", "2026-01-02T", "20260102", "12026-01-02"),
    *("2026-02-30", "2024-02-29", "2026-13-01", "2026-01-02 ", " 2026-01-02", "2026-01-02T03:04:05 UTC"),
    *("2026-01-02T03:04:05 Europe/Berlin", "2026-01-02T03:04:05Europe/Berlin", "2026-01-02T03:04:05 Nowhere"),
    *("1970-01-01T00:00:00.000Z", "0001-01-01", "9999-12-31T23:59:59.999999Z", "0000-01-01", "-0001-01-01"),
    *("24:00:00", "2026-01-02T24:00:00", "2026-01-02T03:04:60", "2026-01-02T03:04:05.", "2026-01-02t03:04:05"),
    *("Fri, 02 Jan 2026 03:04:05 GMT", "1767323045", "2026-01-02T3:4:5", "tomorrow", "epoch", "2026/01/02"),
    *("2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05UTC+01:00", "2026-01-02 03:04:05 +01:00", "+2026-01-02"),
)
OTHERS: Final = (
    *("null", "true", "false", "[]", "[1]", "[1,null]", "[1.5]", "[null]", "[[1]]", "[[1],[2.5,null]]", '["1"]'),
    *("{}", '{"x":1}', '{"x":1.5}', '{"a":1,"b":2}', '{"a":null}', '[{"x":1}]', '[{"x":1},null,{}]', '{"x":[1]}'),
    *('{"x":[1.5]}', '{"x":"y"}', '{"k":{"x":"y"}}', '{"k":{"x":1}}', '{"k":null,"l":{}}', "[true]"),
    *('["a",[1,"b"]]', '{"x":null}', '[{"x":"a"}]'),
)
MALFORMED: Final = ("01", "5.", "0x10", "1_0")
DIFFERENT: Final = {
    # Spark wraps around.
    "TINYINT": {"128", "255"},
    # Years after 9999 or before 1, which other readers of a table cannot hold; days as a text, "20260102" among them.
    "DATE": {'"1"', '"-2"', '"+1"', '"20260102"', '"12026-01-02"', '"0000-01-01"', '"-0001-01-01"', '"1767323045"'},
    # The same, wrapping around, and times that mean another day every day.
    "TIMESTAMP": {
        *('"12026-01-02"', '"0000-01-01"', '"-0001-01-01"', '"03:04:05"', '"T03:04:05"'),
    },
    "TIMESTAMP_NTZ": {'"12026-01-02"', '"0000-01-01"', '"-0001-01-01"'},
    # A comma is left out, whatever it means.
    "DECIMAL(6,2)": {'"1,000"', '"1,5"'},
    "DECIMAL(20,0)": {'"1,000"', '"1,5"'},
}
YEARS: Final = range(-62_135_596_800, 253_402_300_800)
"""The seconds since 1970 of the years 1 to 9999."""


def ours(kind: str, token: str) -> Any:
    """What we make of a value that Spark makes something else of; None where the two agree."""
    whole = token.lstrip("-").isdigit()
    if token in DIFFERENT.get(kind, ()) or (kind == "TIMESTAMP" and whole and int(token) not in YEARS):
        return BAD
    # Spark writes what a double prints as, we what was in the record.
    number = not whole and (token in ("NaN", "Infinity", "-Infinity") or token.lstrip("-")[:1].isdigit())
    return token if kind == "STRING" and number and token not in MALFORMED else None


def numbers(kind: str, column: str) -> str:
    """Times as numbers: Python cannot hold all that Spark can."""
    by = {
        "DATE": "unix_date({})",
        "TIMESTAMP": "unix_micros({})",
        "TIMESTAMP_NTZ": "unix_micros(cast({} as timestamp))",
    }
    return by.get(kind, "{}").format(column)


def by_spark(spark: Any, tokens: list[str]) -> dict[str, list[Any]]:
    from pyspark.sql import functions as f

    rows = [(number, f'{{"v": {token}}}') for number, token in enumerate(tokens)]
    frame = spark.createDataFrame(rows, "number int, text string").coalesce(1)
    read = [
        f.from_json("text", f"v {kind}, bad STRING", {"columnNameOfCorruptRecord": "bad"}).alias(f"c{number}")
        for number, kind in enumerate(TYPES)
    ]
    shown = [f"struct({numbers(kind, f'c{n}.v')} as v, c{n}.bad as bad) as c{n}" for n, kind in enumerate(TYPES)]
    table = frame.select("number", *read).orderBy("number").selectExpr(*shown).toArrow()
    return {
        kind: [BAD if each["bad"] is not None else each["v"] for each in table.column(number).to_pylist()]
        for number, kind in enumerate(TYPES)
    }


def by_us(kind: str, tokens: list[str]) -> list[Any]:
    decoder = JsonDecoder(parse_schema(f"v {kind}"))
    array, bad = decoder.decode([f'{{"v": {token}}}'.encode() for token in tokens])
    column = array.field("v")
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if kind == "DATE" else pa.int64())
    wrong = {index for index, _ in bad}
    return [BAD if index in wrong else each for index, each in enumerate(column.to_pylist())]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


def drawn(draw: random.Random) -> str:
    """A value that nobody thought of."""
    match draw.randrange(7):
        case 0:
            return str(draw.randrange(-(1 << draw.randrange(1, 70)), 1 << draw.randrange(1, 70)))
        case 1:
            return f"{draw.randrange(-99999, 99999)}.{draw.randrange(10 ** draw.randrange(1, 8))}"
        case 2:
            return json.dumps(f"{draw.randrange(-9999, 9999) / 100}")
        case 3 | 4:
            day = f"{draw.randrange(1, 2100):04}-{draw.randrange(1, 14)}-{draw.randrange(1, 33)}"
            time = f"{draw.randrange(26)}:{draw.randrange(62):02}:{draw.randrange(62):02}"
            rest = draw.choice(["", ".5", ".123456", "Z", "+01:00", " UTC", ".1-0330", "x"])
            return json.dumps(draw.choice([day, f"{day}T{time}{rest}", f"{day} {time}{rest}"]))
        case 5:
            return json.dumps([draw.choice([1, None, "a", 2.5, [1], {"x": 1}]) for _ in range(draw.randrange(3))])
        case _:
            return json.dumps({draw.choice("xab"): draw.choice([1, None, "a", 2.5, [7], {"x": "y"}])})


def test_every_value_with_every_type_is_what_from_json_makes_of_it(spark: Any) -> None:
    draw = random.Random(23)
    tokens = [*NUMBERS, *OTHERS, *(json.dumps(text) if "\\" not in text else f'"{text}"' for text in TEXTS)]
    tokens += [drawn(draw) for _ in range(400)]
    theirs = by_spark(spark, tokens)
    wrong = []
    for kind in TYPES:
        for token, they, we in zip(tokens, theirs[kind], by_us(kind, tokens), strict=True):
            expected = ours(kind, token)
            if not same(they if expected is None else expected, we):
                wrong.append(f"{token} as {kind}: {they!r} by Spark, {we!r} by us")
    assert not wrong, "\n".join(wrong)


DOCUMENTS: Final = {
    "{}": None,
    ' {"v":1} ': 1,
    '{"v":1,"v":2}': 2,
    '{"V":1}': None,
    '{"z":[1,{"v":7}],"v":1}': 1,
    '{"v":1,"z":NaN}': 1,
    '{"v":1,"z":"\\ud800"}': 1,
    **dict.fromkeys(("null", "[]", '[{"v":1}]', "1", '"x"', "true", '{"v":1,}', "{v:1}", '{"v":1 /*c*/}'), BAD),
    **dict.fromkeys(('{"v":1,"z":01}', '{"z":"\t","v":1}', '\ufeff{"v":1}', '{"v":1', '{"z":"\\x","v":1}'), BAD),
}
REFUSED: Final = ("", "   ", '{"v":1} x', '{"v":1}{"v":2}', "{'v':1}")
"""Read by Spark: as null, without what follows, and with quotes that JSON does not have."""


def test_documents_are_accepted_and_refused_as_from_json_does(spark: Any) -> None:
    from pyspark.sql import functions as f

    texts = [*DOCUMENTS, *REFUSED]
    frame = spark.createDataFrame(list(enumerate(texts)), "number int, text string").coalesce(1)
    options = {"columnNameOfCorruptRecord": "bad"}
    read = frame.select("number", f.from_json("text", "v BIGINT, bad STRING", options).alias("r")).orderBy("number")
    theirs = [BAD if row.r is not None and row.r.bad is not None else row.r and row.r.v for row in read.collect()]
    array, bad = JsonDecoder(parse_schema("v BIGINT")).decode([text.encode() for text in texts])
    wrong = {index for index, _ in bad}
    ours = [BAD if index in wrong else each["v"] for index, each in enumerate(array.to_pylist())]
    assert ours == [*DOCUMENTS.values(), *[BAD] * len(REFUSED)]
    assert theirs[: len(DOCUMENTS)] == list(DOCUMENTS.values())
    assert BAD not in theirs[len(DOCUMENTS) :]


COLUMNS: Final = ("a", "b", "c", "d")
PLAIN: Final = tuple(kind for kind in TYPES if kind not in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING", "TINYINT"))
"""Types whose every difference from Spark's is in one value, which is not drawn here."""


def drawn_kind(draw: random.Random, depth: int = 2) -> str:
    match draw.randrange(6 if depth else 3):
        case 3:
            return f"ARRAY<{drawn_kind(draw, depth - 1)}>"
        case 4:
            return f"MAP<STRING,{drawn_kind(draw, depth - 1)}>"
        case 5:
            return f"STRUCT<{drawn_fields(draw, depth - 1)}>"
        case _:
            return draw.choice(PLAIN)


def drawn_fields(draw: random.Random, depth: int = 2) -> str:
    names = draw.sample(COLUMNS, draw.randrange(1, len(COLUMNS) + 1))
    return ", ".join(f"{name}: {drawn_kind(draw, depth)}" for name in names)


def drawn_value(draw: random.Random, kind: Any) -> Any:
    """Something that fits a type, most of the time."""
    if draw.random() < 0.04:
        return draw.choice([None, 1, 2.5, -(1 << 40), "x", [], {}, [1], {"a": 1}, True])
    if pa.types.is_struct(kind):
        return {field.name: drawn_value(draw, field.type) for field in kind if draw.random() < 0.9}
    if pa.types.is_list(kind):
        return [drawn_value(draw, kind.value_type) for _ in range(draw.randrange(4))]
    if pa.types.is_map(kind):
        return {key: drawn_value(draw, kind.item_type) for key in draw.sample("klmé", draw.randrange(4))}
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    if pa.types.is_integer(kind):
        return draw.randrange(-(1 << kind.bit_width - 1), 1 << kind.bit_width - 1)
    if pa.types.is_floating(kind):
        return draw.choice([draw.uniform(-1e6, 1e6), draw.randrange(1 << 40)])
    if pa.types.is_decimal(kind):
        return draw.choice([draw.randrange(9999), round(draw.uniform(-99, 99), 3)])
    return draw.choice(["", "eA==", "AAAA"])


def test_random_values_of_random_schemas_are_what_from_json_makes_of_them(spark: Any) -> None:
    from pyspark.sql import functions as f

    draw = random.Random(2023)
    options = {"columnNameOfCorruptRecord": "bad"}
    good = 0
    for _ in range(rounds(full=60, ci=6)):
        fields = drawn_fields(draw)
        kind = parse_schema(fields)
        texts = [json.dumps(drawn_value(draw, kind), ensure_ascii=draw.random() < 0.5) for _ in range(200)]
        texts = [text for text in texts if text.startswith("{")]  # the others are DOCUMENTS
        frame = spark.createDataFrame(list(enumerate(texts)), "number int, text string").coalesce(1)
        read = frame.select("number", f.from_json("text", f"STRUCT<{fields}, bad: STRING>", options).alias("r"))
        theirs = read.orderBy("number").select("r.*").toArrow().to_pylist()
        array, refused = JsonDecoder(kind).decode([text.encode() for text in texts])
        bad = {index for index, _ in refused}
        for index, (text, they, we) in enumerate(zip(texts, theirs, array.to_pylist(), strict=True)):
            assert (they.pop("bad") is not None) == (index in bad), f"{text} as {fields}"
            assert index in bad or same(they, we), f"{text} as {fields}: {they!r} by Spark, {we!r} by us"
        good += len(texts) - len(bad)
    assert good > rounds(full=3000, ci=300)
