"""Spark's way of writing a schema, `id BIGINT, items ARRAY<STRUCT<sku: STRING>>`, as Arrow types.

Spark reads DDL in its JVM, which an executor's Python cannot ask.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

SIMPLE: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`|[A-Za-z0-9_.]+)|([<>(),:]))")


class SchemaError(ValueError):
    """A schema that cannot be read."""


def parse_schema(text: str) -> Any:
    """The Arrow struct type of a schema, given as DDL or as the JSON that `StructType.json()` writes."""
    if text.lstrip().startswith("{"):
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        try:
            return pa.struct(list(to_arrow_schema(StructType.fromJson(json.loads(text)), timezone="UTC")))
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"the schema is not the JSON of a StructType: {error}") from None
    reader = _Reader(text)
    fields = reader.fields("")
    if not fields:
        raise SchemaError("the schema has no fields")
    return pa.struct(fields)


class _Reader:
    """Reads one schema from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise SchemaError(f"the schema {text!r} cannot be read at {text[at:].strip()[:20]!r}")
            self._tokens.append(match[1] or match[2])
            at = match.end()
        self._at = 0

    def fields(self, closing: str) -> list[Any]:
        """Fields with commas between, up to the closing sign (or the end)."""
        found: list[Any] = []
        while self._peek() != closing:
            name = self._take()
            if self._peek() == ":":
                self._at += 1
            kind = self._type()
            nullable = True
            if self._peek().upper() == "NOT":
                self._take()
                self._expect("NULL")
                nullable = False
            found.append(pa.field(name[1:-1].replace("``", "`") if name[0] == "`" else name, kind, nullable))
            if self._peek() != closing:
                self._expect(",")
                if self._peek() == closing:
                    raise SchemaError(f"a field is missing after the last comma in schema {self._text!r}")
        return found

    def _type(self) -> Any:
        name = self._take().lower()
        if name == "array":
            self._expect("<")
            inner = self._type()
            self._expect(">")
            return pa.list_(pa.field("element", inner))
        if name == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return pa.map_(key, value)
        if name == "struct":
            self._expect("<")
            fields = self.fields(">")
            self._expect(">")
            return pa.struct(fields)
        if name in ("decimal", "dec", "numeric"):
            return pa.decimal128(*(self._numbers() or (10, 0)))
        if name not in SIMPLE:
            raise SchemaError(f"there is no type {name!r} in schema {self._text!r}")
        self._numbers()
        return SIMPLE[name]

    def _numbers(self) -> tuple[int, ...]:
        if self._peek() != "(":
            return ()
        self._at += 1
        numbers = [self._number()]
        while self._peek() == ",":
            self._at += 1
            numbers.append(self._number())
        self._expect(")")
        return tuple(numbers) if len(numbers) > 1 else (numbers[0], 0)

    def _number(self) -> int:
        token = self._take()
        if not token.isdigit():
            raise SchemaError(f"a number is missing before {token!r} in schema {self._text!r}")
        return int(token)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token or token in "<>(),:":
            raise SchemaError(f"a word is missing before {token or 'the end'!r} in schema {self._text!r}")
        self._at += 1
        return token

    def _expect(self, wanted: str) -> None:
        if self._peek().upper() != wanted:
            raise SchemaError(f"{wanted!r} is missing before {self._peek() or 'the end'!r} in schema {self._text!r}")
        self._at += 1
