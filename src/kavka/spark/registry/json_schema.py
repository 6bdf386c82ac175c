"""The columns of a JSON schema: objects are structs, and what may be several things is a text of JSON.

Fields that a schema requires may still be missing in values of other versions, so every column may be null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from kavka.spark.ddl import SchemaError

_PLAIN: Final[Mapping[str, Any]] = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_FORMATS: Final[Mapping[str, Any]] = {"date": pa.date32(), "date-time": pa.timestamp("us", tz="UTC")}
_DEEP: Final = 64


def columns_of(text: str, others: Mapping[str, str]) -> Any:
    """The Arrow struct of a schema; `others` are the schemas that it refers to, by the names it has for them."""
    documents = {name: _parsed(each) for name, each in others.items()}
    documents[""] = _parsed(text)
    kind = _Columns(documents).of("", documents[""], 0)
    if not pa.types.is_struct(kind):
        raise SchemaError("the JSON schema is not that of an object with properties, which columns are made of")
    return kind


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"the JSON schema is not JSON: {error}") from None


class _Columns:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def of(self, document: str, schema: Any, depth: int) -> Any:
        """The type of a schema that stands in one of the documents."""
        if depth > _DEEP:
            raise SchemaError("the JSON schema contains itself: no column can hold that")
        if not isinstance(schema, dict):
            return pa.string()
        if isinstance(schema.get("$ref"), str):
            return self.of(*self._referred(document, schema["$ref"]), depth + 1)
        for word in ("oneOf", "anyOf", "allOf"):
            if isinstance(schema.get(word), list) and "properties" not in schema:
                real = [each for each in schema[word] if not _is_null(each)]
                return self.of(document, real[0], depth + 1) if len(real) == 1 else pa.string()
        kinds = schema.get("type", "object" if "properties" in schema else None)
        names = [kinds] if isinstance(kinds, str) else list(kinds or ())
        real = [name for name in names if name != "null"]
        return self._typed(document, schema, real[0], depth) if len(real) == 1 else pa.string()

    def _typed(self, document: str, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        if name in _PLAIN:
            return _PLAIN[name]
        if name == "string":
            return _FORMATS.get(str(schema.get("format")), pa.string())
        if name == "array":
            return pa.list_(pa.field("element", self.of(document, schema.get("items"), depth + 1)))
        if name != "object":
            raise SchemaError(f"there is no type {name!r} in JSON schemas")
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            return pa.struct([pa.field(key, self.of(document, each, depth + 1)) for key, each in properties.items()])
        values = schema.get("additionalProperties")
        return pa.map_(pa.string(), self.of(document, values, depth + 1)) if isinstance(values, dict) else pa.string()

    def _referred(self, document: str, reference: str) -> tuple[str, Any]:
        name, _, path = reference.partition("#")
        found = self._documents.get(name or document)
        if found is None:
            raise SchemaError(f"the JSON schema refers to {name!r}, which is not among its references")
        for part in path.strip("/").split("/") if path.strip("/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise SchemaError(f"the JSON schema refers to {reference!r}, which is not there")
            found = found[key]
        return name or document, found


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def schema_of(kind: Any) -> str:
    """A JSON schema for the rows of a struct; every field may be null."""
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **_object(kind)})


def _object(kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {field.name: _nullable(field.type) for field in kind}}


def _nullable(kind: Any) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, _one(kind)]}


def _one(kind: Any) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        return _object(kind)
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type)}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _nullable(kind.item_type)}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": "number"}
    if pa.types.is_date(kind):
        return {"type": "string", "format": "date"}
    if pa.types.is_timestamp(kind) and kind.tz:
        return {"type": "string", "format": "date-time"}
    return {"type": "string"}
