"""Avro's binary form as columns, with the types that Spark's `from_avro` gives.

A union of several types becomes a struct of `member0`, `member1`, ..., of which one is not null. A record of one field
is written as the field alone, so each branch is read as a record whose field has the name of its column. Values of
another schema are read by Avro's resolution; there, what the writer has in the place of such a union is read as the
branch of the reader that it is, or becomes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from kavka.client.schemas.avro_bounds import AvroBounds
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
_PROMOTED: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What Avro reads a type as, beside itself."""


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
    """Reads values that were written with one known schema, as columns of it or of another reader's."""

    def __init__(self, schema: Any, reader: AvroReader | None = None) -> None:
        import fastavro

        columns = _Columns(None if reader is None else reader.unions)
        try:
            kind, made = columns.of(fastavro.parse_schema(schema), "")
            self._schema = fastavro.parse_schema(made)
        except SchemaError:
            raise
        except Exception as error:
            raise SchemaError(f"value.schema is not an Avro schema: {error}") from None
        self.kind: Any = kind if reader is None else reader.kind
        self.unions: Mapping[str, tuple[str, ...]] = columns.unions
        self._into = None if reader is None else reader._schema
        self._read = fastavro.schemaless_reader
        self._bounds = AvroBounds(self._schema)

    def read(self, value: bytes, at: int = 0) -> Any:
        """One value, as Python has it; raises what the library raises over bytes that are none."""
        self._bounds.check(value, at)
        stream = io.BytesIO(value)
        stream.seek(at)
        row = self._read(stream, self._schema, self._into)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
        return row


class _Columns:
    """The Arrow type of a schema, and the schema that reads values of it into rows of that type.

    With the unions of a reader, only the schema counts: it reads values for that reader.
    """

    def __init__(self, like: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._named: dict[str, Any] = {}
        self._like = like
        self.unions: dict[str, tuple[str, ...]] = {}
        """The names of the types of each union that is a struct, by its place: a record and a field, and so on."""

    def of(self, schema: Any, place: str) -> tuple[Any, Any]:
        """Of a schema whose names are whole, as the library makes them."""
        if isinstance(schema, list):
            return self._union(schema, place)
        kind, column = self._single(schema, place)
        if self._like is not None and place in self._like:  # a union for the reader, one type for the writer
            return kind, self._branches(place, [(schema, column)])[0]
        return kind, column

    def _single(self, schema: Any, place: str) -> tuple[Any, Any]:
        if isinstance(schema, str):
            return self._name(schema), schema
        match schema["type"]:
            case "record":
                return self._record(schema)
            case "array":
                kind, items = self.of(schema["items"], f"{place}[]")
                return pa.list_(pa.field("element", kind)), {"type": "array", "items": items}
            case "map":
                kind, values = self.of(schema["values"], f"{place}{{}}")
                return pa.map_(pa.string(), kind), {"type": "map", "values": values}
            case "enum":
                self._named[schema["name"]] = pa.string()
                kept = ("type", "name", "symbols", "default", "aliases")
                return pa.string(), {name: each for name, each in schema.items() if name in kept}
            case "fixed":
                return self._fixed(schema)
            case str(name):
                return self._scalar(name, schema)
            case inner:
                return self.of(inner, place)

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
            place = f"{_bare(schema['name'])}.{field['name']}"
            kind, column = self.of(field["type"], place)
            fields.append(pa.field(field["name"], kind))
            kept = {name: field[name] for name in ("default", "aliases") if name in field}
            if place in self.unions and kept.get("default") is not None:
                kept["default"] = {"member0": kept["default"]}  # a default is of the first type
            columns.append({"name": field["name"], "type": column, **kept})
        kind = self._named[schema["name"]] = pa.struct(fields)
        aliases = {"aliases": schema["aliases"]} if "aliases" in schema else {}
        return kind, {"type": "record", "name": schema["name"], "fields": columns, **aliases}

    def _fixed(self, schema: Mapping[str, Any]) -> tuple[Any, Any]:
        plain = {"type": "fixed", "name": schema["name"], "size": schema["size"]}
        if schema.get("logicalType") == "decimal":
            kind = self._named[schema["name"]] = _decimal(schema)
            scale = schema.get("scale", 0)
            return kind, {**plain, "logicalType": "decimal", "precision": schema["precision"], "scale": scale}
        self._named[schema["name"]] = pa.binary()
        return pa.binary(), plain

    def _union(self, schema: list[Any], place: str) -> tuple[Any, Any]:
        real = [each for each in schema if each != "null"]
        read = [self._single(each, place) for each in real]
        names = frozenset(map(_type_name, real))
        plain = len(real) < 2 or (len(real) == 2 and names in _NUMBERS)
        if plain if self._like is None else place not in self._like:
            kind = pa.null() if not real else read[0][0] if len(real) != 2 else _NUMBERS.get(names, read[0][0])
            columns = iter(each for _, each in read)
            return kind, [each if each == "null" else next(columns) for each in schema]
        if self._like is None:
            self.unions[place] = tuple(_branch_name(each) for each in real)
        pairs = [(each, column) for each, (_, column) in zip(real, read, strict=True)]
        wrapped = iter(self._branches(place, pairs))
        kind = pa.struct([pa.field(f"member{number}", kind) for number, (kind, _) in enumerate(read)])
        return kind, [each if each == "null" else next(wrapped) for each in schema]

    def _branches(self, place: str, types: list[tuple[Any, Any]]) -> list[Any]:
        """What reads each type of a union as the record of its member."""
        known = self.unions[place] if self._like is None else self._like[place]
        unique = hashlib.sha256(place.encode()).hexdigest()[:16]
        made = []
        for each, column in types:
            number = _member(_branch_name(each), known)
            field = {"name": f"member{number}", "type": column}
            made.append({"type": "record", "name": f"{_BRANCH}{unique}_{number}", "fields": [field]})
        return made


def _member(name: str, known: tuple[str, ...]) -> int:
    """The place of a type among the reader's, or of one that it can become; behind them all if there is none."""
    for each in (name, *_PROMOTED.get(name, ())):
        if each in known:
            return known.index(each)
    return len(known)


def _type_name(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _branch_name(schema: Any) -> str:
    """By what a type is found in a union: its own name, or its type's."""
    return _bare(str(schema.get("name", schema["type"]) if isinstance(schema, dict) else schema))


def _bare(name: str) -> str:
    return name.rpartition(".")[2]


def _decimal(schema: Mapping[str, Any]) -> Any:
    return pa.decimal128(schema["precision"], schema.get("scale", 0))
