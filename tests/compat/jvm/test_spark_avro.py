"""Avro by our readers and by Spark's own `from_avro`: the same rows and refusals, for random schemas and values.

What is behind a record is a refusal here and nothing to Spark, so values are cut, not made longer.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kavka.spark.avro_values import AvroReader
from kavka.spark.values import AvroDecoder

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3] / "tools")]

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from spark_jars.fetch import FetchError, jars

    from kavka.spark.session import start

    try:
        found = jars()
    except FetchError as reason:
        pytest.skip(f"the jars of Spark's Avro functions: {reason}")
    session = start("avro", conf={"spark.jars": ",".join(map(str, found))})
    yield session
    session.stop()


class Schemas:
    """Random schemas, each with a value that fits; names are never used twice."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def record(self, depth: int = 2) -> dict[str, Any]:
        fields = [{"name": self.name(), "type": self.any(depth)} for _ in range(self.draw.randrange(1, 6))]
        return {"type": "record", "name": self.name(), "fields": fields}

    def any(self, depth: int) -> Any:
        draw = self.draw
        match draw.randrange(12 if depth else 8):
            case 0:
                return {"type": "enum", "name": self.name(), "symbols": ["A", "B", "C"]}
            case 1:
                return {"type": "fixed", "name": self.name(), "size": 3}
            case 2:
                return draw.choice(
                    [
                        {"type": "int", "logicalType": "date"},
                        {"type": "long", "logicalType": "timestamp-millis"},
                        {"type": "long", "logicalType": "timestamp-micros"},
                        {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
                    ]
                )
            case 3:
                return draw.choice([["null", "string"], ["int", "null"], ["int", "long"], ["float", "double", "null"]])
            case 8:
                return {"type": "array", "items": self.any(depth - 1)}
            case 9:
                return {"type": "map", "values": self.any(depth - 1)}
            case 10:
                return self.record(depth - 1)
            case 11:
                return ["null", "boolean", "string", {"type": "array", "items": "int"}, self.record(0)]
            case _:
                return draw.choice(["boolean", "int", "long", "float", "double", "bytes", "string"])

    def value(self, schema: Any) -> Any:
        draw = self.draw
        if isinstance(schema, list):
            chosen = draw.choice(schema)
            given = self.value(chosen)
            return (chosen["name"], given) if isinstance(chosen, dict) and "name" in chosen else given
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case "record":
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
            case "array":
                return [self.value(schema["items"]) for _ in range(draw.randrange(4))]
            case "map":
                return {key: self.value(schema["values"]) for key in draw.sample("klmé", draw.randrange(4))}
            case "enum":
                return draw.choice(schema["symbols"])
            case "fixed":
                return draw.randbytes(schema["size"])
            case _:
                return self._plain(schema, kind)

    def _plain(self, schema: Any, kind: str) -> Any:
        draw = self.draw
        match schema.get("logicalType") if isinstance(schema, dict) else None:
            case "date":
                return dt.date(2026, 1, 1) + dt.timedelta(days=draw.randrange(-9999, 9999))
            case "decimal":
                return Decimal(draw.randrange(-99_999_999, 99_999_999)).scaleb(-2)
            case str():
                return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=draw.randrange(1 << 40))
        return {
            "null": None,
            "boolean": draw.random() < 0.5,
            "int": draw.randrange(-(1 << 31), 1 << 31),
            "long": draw.randrange(-(1 << 63), 1 << 63),
            "float": float(draw.randrange(-1000, 1000)) / 4,
            "double": draw.uniform(-1e9, 1e9),
            "bytes": draw.randbytes(draw.randrange(5)),
            "string": draw.choice(["", "x", "žluť", "\U0001f600" * 3]),
        }[kind]


def written(schema: Any, *rows: Any) -> list[bytes]:
    values = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
        values.append(out.getvalue())
    return values


def by_spark(spark: Any, values: list[bytes], writer: Any, reader: Any = None) -> list[Any]:
    from pyspark.sql.avro.functions import from_avro

    options = {"mode": "PERMISSIVE", **({"avroSchema": json.dumps(reader)} if reader is not None else {})}
    rows = [(number, bytearray(value)) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "number int, value binary").coalesce(1).orderBy("number")
    read = frame.select(from_avro("value", json.dumps(writer), options).alias("r")).toArrow()
    # A value that cannot be read is a struct of nulls there.
    return [row if row is not None and any(each is not None for each in row.values()) else None
            for row in read.column("r").to_pylist()]  # fmt: skip


def plain(row: Any) -> str:
    """Rows without what tells zones of the same name apart, and maps in one order: Java's have none."""
    return repr(_ordered(row)).replace("zoneinfo.ZoneInfo(key='UTC')", "UTC").replace("datetime.timezone.utc", "UTC")


def _ordered(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _ordered(each) for name, each in item.items()}
    if isinstance(item, list):
        ordered = [_ordered(each) for each in item]
        return sorted(ordered, key=lambda pair: pair[0]) if ordered and isinstance(ordered[0], tuple) else ordered
    return (item[0], _ordered(item[1])) if isinstance(item, tuple) else item


def test_random_values_of_random_schemas_are_what_from_avro_makes_of_them(spark: Any) -> None:
    from scale import rounds

    schemas = Schemas(1)
    good = refused = 0
    for _ in range(rounds(full=60, ci=8)):
        schema = schemas.record()
        schema["fields"].append({"name": "last", "type": "string"})  # so that no good row is all nulls, or of no bytes
        values = written(schema, *(schemas.value(schema) for _ in range(30)))
        values += [value[: schemas.draw.randrange(len(value))] for value in values[:10]]
        array, bad = AvroDecoder(schema).decode(values)
        theirs = by_spark(spark, values, schema)
        for value, we, they in zip(values, array.to_pylist(), theirs, strict=True):
            assert plain(we) == plain(they), f"{value!r} by {json.dumps(schema)}"
        good += len(values) - len(bad)
        refused += len(bad)
    assert good >= rounds(full=60, ci=8) * 30
    assert refused >= rounds(full=60, ci=8) * 5


def changed(schemas: Schemas, schema: Any) -> Any:
    """A reader's schema: fields in another order, some gone, some new, some wider."""
    draw = schemas.draw
    fields = [dict(field) for field in schema["fields"] if field["name"] == "last" or draw.random() < 0.8]
    for field in fields:
        if field["type"] in ("int", "float") and draw.random() < 0.7:
            field["type"] = {"int": "long", "float": "double"}[field["type"]]
    fields.append({"name": schemas.name(), "type": ["null", "string"], "default": None})
    fields.append({"name": schemas.name(), "type": "int", "default": 7})
    draw.shuffle(fields)
    return {**schema, "fields": fields}


def test_values_of_another_schema_are_resolved_as_from_avro_does(spark: Any) -> None:
    from scale import rounds

    schemas = Schemas(2)
    for _ in range(rounds(full=60, ci=8)):
        writer = schemas.record()
        writer["fields"] += [{"name": "last", "type": "string"}, {"name": schemas.name(), "type": "int"}]
        reader = changed(schemas, writer)
        values = written(writer, *(schemas.value(writer) for _ in range(20)))
        into = AvroReader(reader)
        resolved = AvroReader(writer, into)
        ours = pa.array([resolved.read(value) for value in values], into.kind).to_pylist()
        theirs = by_spark(spark, values, writer, reader)
        for value, we, they in zip(values, ours, theirs, strict=True):
            assert plain(we) == plain(they), f"{value!r} by {json.dumps(writer)} as {json.dumps(reader)}"
