"""Values of Avro as JSON says them, and back by a schema.

Bytes are text with a character per byte, as in Avro's own JSON encoding; times are in ISO 8601 or numbers of their
unit; decimals and UUIDs are text. A value of a union is written without the name of its type, and read as the first
that fits.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final


def said(value: Any) -> Any:
    """What JSON says of a value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: said(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [said(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def meant(schema: Any, value: Any) -> Any:
    """What fastavro writes by a schema it has parsed, for what JSON says; raises ValueError."""
    return _Reading(schema).read(schema, value, "$")


_INTEGERS: Final = {"int": 1 << 31, "long": 1 << 63}
_TIMES: Final[dict[str, Callable[[str], Any]]] = {
    "timestamp-millis": datetime.datetime.fromisoformat,
    "timestamp-micros": datetime.datetime.fromisoformat,
    "local-timestamp-millis": datetime.datetime.fromisoformat,
    "local-timestamp-micros": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time-millis": datetime.time.fromisoformat,
    "time-micros": datetime.time.fromisoformat,
}


class _Reading:
    """One value in the making; names are known from the schema's own definitions."""

    def __init__(self, schema: Any) -> None:
        self._names: dict[str, Any] = dict(schema.get("__named_schemas", {})) if isinstance(schema, dict) else {}

    def read(self, schema: Any, value: Any, path: str) -> Any:
        if isinstance(schema, list):
            return self._union(schema, value, path)
        if isinstance(schema, str) and schema in self._names:
            schema = self._names[schema]
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(schema, dict):
            if kind in ("record", "error", "enum", "fixed"):
                self._names.setdefault(str(schema["name"]), schema)
            logical = schema.get("logicalType")
            if logical is not None:
                return _logical(logical, schema, value, path)
        return self._plain(kind, schema, value, path)

    def _plain(self, kind: Any, schema: Any, value: Any, path: str) -> Any:
        if kind in ("record", "error"):
            return self._record(schema, value, path)
        if kind == "array":
            items = _of(value, list, path)
            return [self.read(schema["items"], each, f"{path}[{index}]") for index, each in enumerate(items)]
        if kind == "map":
            return {
                name: self.read(schema["values"], each, f"{path}.{name}")
                for name, each in _of(value, dict, path).items()
            }
        if kind == "enum":
            if value not in schema["symbols"]:
                raise ValueError(f"{path}: {value!r} is none of {', '.join(schema['symbols'])}")
            return value
        if isinstance(kind, dict | list):
            return self.read(kind, value, path)
        return _primitive(kind, value, path)

    def _record(self, schema: Any, value: Any, path: str) -> dict[str, Any]:
        given = _of(value, dict, path)
        fields = {each["name"]: each for each in schema["fields"]}
        unknown = given.keys() - fields.keys()
        if unknown:
            raise ValueError(f"{path}: {schema['name']} has no field {min(unknown)!r}")
        missing = [name for name, each in fields.items() if name not in given and "default" not in each]
        if missing:
            raise ValueError(f"{path}: the field {missing[0]!r} is missing")
        return {name: self.read(fields[name]["type"], each, f"{path}.{name}") for name, each in given.items()}

    def _union(self, branches: list[Any], value: Any, path: str) -> Any:
        reasons = []
        for branch in branches:
            try:
                return self.read(branch, value, path)
            except ValueError as error:
                if branch != "null":
                    reasons.append(str(error))
        raise ValueError(reasons[0] if reasons else f"{path}: null was expected")


def _of(value: Any, kind: type, path: str) -> Any:
    if not isinstance(value, kind):
        wanted = "an object" if kind is dict else "a list"
        raise ValueError(f"{path}: {wanted} was expected, not {_shown(value)}")
    return value


def _logical(logical: str, schema: Mapping[str, Any], value: Any, path: str) -> Any:
    parse = _TIMES.get(logical)
    try:
        if parse is not None and isinstance(value, str):
            found = parse(value)
            utc = isinstance(found, datetime.datetime) and found.tzinfo is None and not logical.startswith("local")
            return found.replace(tzinfo=datetime.UTC) if utc else found
        if logical == "decimal" and isinstance(value, str | int | float) and not isinstance(value, bool):
            return Decimal(str(value))
        if logical == "uuid" and isinstance(value, str):
            return uuid.UUID(value)
    except (ValueError, InvalidOperation):
        raise ValueError(f"{path}: {_shown(value)} is no {logical}") from None
    return _primitive(schema["type"], value, path)


def _primitive(kind: str, value: Any, path: str) -> Any:
    good = False
    if kind == "null":
        good = value is None
    elif kind == "boolean":
        good = isinstance(value, bool)
    elif kind in _INTEGERS:
        good = isinstance(value, int) and not isinstance(value, bool) and -_INTEGERS[kind] <= value < _INTEGERS[kind]
    elif kind in ("float", "double"):
        good = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind == "string":
        good = isinstance(value, str)
    elif kind in ("bytes", "fixed") and isinstance(value, str):
        try:
            return value.encode("latin-1")
        except UnicodeEncodeError:
            good = False
    if not good:
        raise ValueError(f"{path}: {kind} was expected, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
