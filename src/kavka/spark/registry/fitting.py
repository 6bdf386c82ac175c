"""Whether columns can be written by a schema without losing anything, found out before a row is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


def avro_misfit(schema: Any, kind: Any) -> str | None:
    """What an Avro schema does not have for rows of a struct, or has otherwise; None if they fit."""
    import fastavro

    named: dict[str, Any] = {}
    return _avro(fastavro.parse_schema(schema, named), named, kind, "")


def _avro(schema: Any, named: Mapping[str, Any], kind: Any, path: str) -> str | None:
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, list):
        found = [_avro(each, named, kind, path) for each in schema if each != "null"]
        return None if None in found else next(iter(found), None)
    name = schema if isinstance(schema, str) else schema["type"]
    if isinstance(name, dict | list):
        return _avro(name, named, kind, path)
    if pa.types.is_struct(kind):
        return _record(schema, named, kind, path) if name in ("record", "error") else None
    if pa.types.is_list(kind):
        return _avro(schema["items"], named, kind.value_type, f"{path}[]") if name == "array" else None
    if pa.types.is_map(kind):
        return _avro(schema["values"], named, kind.item_type, f"{path}[]") if name == "map" else None
    # These the library cuts off to what fits; of the others it says that they do not.
    fractions = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if (fractions and name in ("int", "long")) or (kind == pa.int64() and name == "int"):
        return f"has type {name} for {path!r}, which values of type {kind} do not fit into"
    return None


def _record(schema: Any, named: Mapping[str, Any], kind: Any, path: str) -> str | None:
    fields = {field["name"]: field for field in schema["fields"]}
    needed = [name for name, field in fields.items() if "default" not in field]
    said = _names(fields, needed, kind, path)
    inner = (_avro(fields[each.name]["type"], named, each.type, _below(path, each.name)) for each in kind)
    return said or next((each for each in inner if each is not None), None)


def message_misfit(descriptor: Any, kind: Any, path: str = "") -> str | None:
    """What a message of Protobuf does not have for rows of a struct; None if they fit."""
    fields = {field.name: field for field in descriptor.fields}
    said = _names(fields, (), kind, path)
    inner = (_field(fields[each.name], each.type, _below(path, each.name)) for each in kind)
    return said or next((each for each in inner if each is not None), None)


def _field(field: Any, kind: Any, path: str) -> str | None:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry and pa.types.is_map(kind):
        return _field(message.fields_by_name["value"], kind.item_type, f"{path}[]")
    if pa.types.is_list(kind):
        kind, path = kind.value_type, f"{path}[]"
    return message_misfit(message, kind, path) if message is not None and pa.types.is_struct(kind) else None


def _names(fields: Iterable[str], needed: Iterable[str], kind: Any, path: str) -> str | None:
    columns = [field.name for field in kind]
    extra = [name for name in columns if name not in fields]
    if extra:
        return f"has no field {_below(path, extra[0])!r}"
    missing = [name for name in needed if name not in columns]
    return f"needs a field {_below(path, missing[0])!r}" if missing else None


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
