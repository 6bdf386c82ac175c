"""Avro's binary form as columns, with the types that Spark's `from_avro` gives.

A union of several types becomes a struct of `member0`, `member1`, ..., of which one is not null. A record of one field
is written as the field alone, so each branch is read as a record whose field has the name of its column.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from kavka.spark.ddl import SchemaError

_PLAIN: Final[Mapping[str, Any]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
_LOGICAL: Final[Mapping[tuple[str, str], Any]] = {
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("int", "date"): pa.date32(),
}
_NUMBERS: Final[Mapping[frozenset[str], Any]] = {
    frozenset(("int", "long")): pa.int64(),
    frozenset(("float", "double")): pa.float64(),
}
_BRANCH: Final = "kavka.branch"


def schema_from(text: str) -> dict[str, Any]:
    """The schema of a record."""
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"value.schema is not JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaError("value.schema must be an Avro record")
    return schema


class AvroReader:
    """Reads values that were written with one known schema."""

    def __init__(self, schema: Any) -> None:
        import fastavro

        try:
            parsed = fastavro.parse_schema(schema)
        except Exception as error:
            raise SchemaError(f"value.schema is not an Avro schema: {error}") from None
        self.kind, columns = _Columns().of(parsed)
        self._schema = fastavro.parse_schema(columns)
        self._read = fastavro.schemaless_reader

    def read(self, value: bytes) -> Any:
        """One value, as Python has it; raises what the library raises over bytes that are none."""
        stream = io.BytesIO(value)
        row = self._read(stream, self._schema)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
        return row


class _Columns:
    """The Arrow type of a schema, and the schema that reads values of it into rows of that type."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._branches = 0

    def of(self, schema: Any) -> tuple[Any, Any]:
        """Of a schema whose names are whole, as the library makes them."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._name(schema), schema
        match schema["type"]:
            case "record":
                return self._record(schema)
            case "array":
                kind, items = self.of(schema["items"])
                return pa.list_(pa.field("element", kind)), {"type": "array", "items": items}
            case "map":
                kind, values = self.of(schema["values"])
                return pa.map_(pa.string(), kind), {"type": "map", "values": values}
            case "enum":
                self._named[schema["name"]] = pa.string()
                return pa.string(), {name: each for name, each in schema.items() if name in ("type", "name", "symbols")}
            case "fixed":
                return self._fixed(schema)
            case str(name):
                return self._scalar(name, schema)
            case inner:
                return self.of(inner)

    def _name(self, name: str) -> Any:
        if name in _PLAIN:
            return _PLAIN[name]
        kind = self._named.get(name)
        if kind is None:
            raise SchemaError(f"Avro type {name!r} contains itself: no column can hold that")
        return kind

    def _scalar(self, name: str, schema: Mapping[str, Any]) -> tuple[Any, Any]:
        logical = str(schema.get("logicalType"))
        if name == "bytes" and logical == "decimal":
            return _decimal(schema), dict(schema)
        if (name, logical) in _LOGICAL:
            return _LOGICAL[name, logical], {"type": name, "logicalType": logical}
        return self._name(name), name  # what a logical type means that is not known here is left to the query

    def _record(self, schema: Mapping[str, Any]) -> tuple[Any, Any]:
        fields, columns = [], []
        for field in schema["fields"]:
            kind, column = self.of(field["type"])
            fields.append(pa.field(field["name"], kind))
            columns.append({"name": field["name"], "type": column})
        kind = self._named[schema["name"]] = pa.struct(fields)
        return kind, {"type": "record", "name": schema["name"], "fields": columns}

    def _fixed(self, schema: Mapping[str, Any]) -> tuple[Any, Any]:
        plain = {"type": "fixed", "name": schema["name"], "size": schema["size"]}
        if schema.get("logicalType") == "decimal":
            kind = self._named[schema["name"]] = _decimal(schema)
            scale = schema.get("scale", 0)
            return kind, {**plain, "logicalType": "decimal", "precision": schema["precision"], "scale": scale}
        self._named[schema["name"]] = pa.binary()
        return pa.binary(), plain

    def _union(self, schema: list[Any]) -> tuple[Any, Any]:
        real = [each for each in schema if each != "null"]
        read = [self.of(each) for each in real]
        names = frozenset(str(each["type"] if isinstance(each, dict) else each) for each in real)
        if len(real) < 2 or (len(real) == 2 and names in _NUMBERS):
            kind = pa.null() if not real else read[0][0] if len(real) == 1 else _NUMBERS[names]
            columns = iter(each for _, each in read)
            return kind, [each if each == "null" else next(columns) for each in schema]
        branches = []
        for number, (_, column) in enumerate(read):
            self._branches += 1
            field = {"name": f"member{number}", "type": column}
            branches.append({"type": "record", "name": f"{_BRANCH}{self._branches}", "fields": [field]})
        wrapped = iter(branches)
        kind = pa.struct([pa.field(f"member{number}", kind) for number, (kind, _) in enumerate(read)])
        return kind, [each if each == "null" else next(wrapped) for each in schema]


def _decimal(schema: Mapping[str, Any]) -> Any:
    return pa.decimal128(schema["precision"], schema.get("scale", 0))
