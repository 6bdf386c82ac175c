"""Avro schemas of classes.

| Python | Avro |
|---|---|
| bool, int, float, str, bytes | boolean, long, double, string, bytes |
| datetime, date, time | timestamp-micros, date, time-micros |
| UUID, Annotated[Decimal, Precision(10, 2)] | uuid, decimal |
| list, set, tuple[T, ...], dict[str, T] | array, map |
| Enum, Literal | enum of the members' names, string |
| T \\| None, unions | union, that of a default first |
| a dataclass or a model of pydantic | record |
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, get_args, get_origin

from kavka.client.schemas.models import (
    MISSING,
    RECORD_HINT,
    ModelField,
    Precision,
    alternatives,
    bare,
    fields_of,
    is_model,
    name_of,
    plain,
)

_SIMPLE: Final[dict[Any, Any]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}


def avro_of(kind: type) -> str:
    """The Avro schema of a class, as JSON; raises TypeError for a field that Avro has no type for."""
    return json.dumps(_Deriving().record(kind), separators=(",", ":"))


class _FieldError(TypeError):
    """It says already which field it is about."""


class _Deriving:
    """One schema in the making."""

    def __init__(self) -> None:
        self._known: dict[str, type] = {}
        self._written: set[str] = set()

    def record(self, kind: type) -> Any:
        name = name_of(kind)
        if self._seen(name, kind):
            return name
        fields = [self._field(kind, each) for each in fields_of(kind)]
        return {"type": "record", **_name(kind), "fields": fields}

    def _seen(self, name: str, kind: type) -> bool:
        before = self._known.setdefault(name, kind)
        if before is not kind:
            raise TypeError(f"two classes are called {name}: give one of them a __namespace__")
        seen = name in self._written
        self._written.add(name)
        return seen

    def _field(self, owner: type, field: ModelField) -> dict[str, Any]:
        said: dict[str, Any] = {"name": field.name}
        try:
            said["type"] = self._type(field.kind, field.default)
        except _FieldError:
            raise
        except TypeError as error:
            raise _FieldError(f"{owner.__name__}.{field.name}: {error}") from None
        default = _json_default(field.default)
        if default is not MISSING:
            said["default"] = default
        return said

    def _type(self, kind: Any, default: Any = MISSING) -> Any:
        kind, said = bare(kind)
        branches = alternatives(kind)
        if branches is not None:
            return self._union(branches, default)
        if kind is Decimal:
            return _decimal(said)
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if is_model(kind):
            return self.record(kind)
        if isinstance(kind, type) and issubclass(kind, Enum):
            if self._seen(name_of(kind), kind):
                return name_of(kind)
            return {"type": "enum", **_name(kind), "symbols": [each.name for each in kind]}
        return self._generic(kind)

    def _generic(self, kind: Any) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal and all(isinstance(each, str) for each in arguments):
            return "string"
        if origin in (list, set, frozenset, Sequence) and arguments:
            return {"type": "array", "items": self._type(arguments[0])}
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self._type(arguments[0])}
        if origin in (dict, Mapping) and len(arguments) == 2 and arguments[0] is str:
            return {"type": "map", "values": self._type(arguments[1])}
        raise TypeError(f"Avro has no type for {getattr(kind, '__name__', kind)}")

    def _union(self, branches: list[Any], default: Any) -> list[Any]:
        # a default is of the first branch (Avro 1.12, complex types, unions)
        first = [each for each in branches if default is not MISSING and _is_of(default, bare(each)[0])]
        ordered = [*first[:1], *(each for each in branches if each not in first[:1])]
        return [self._type(each) for each in ordered]


def _is_of(default: Any, kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return type(default) is origin or (isinstance(origin, type) and origin is not int and isinstance(default, origin))


def _name(kind: type) -> dict[str, str]:
    namespace = getattr(kind, "__namespace__", "")
    return {"name": kind.__name__, **({"namespace": namespace} if namespace else {})}


def _decimal(said: tuple[Any, ...]) -> dict[str, Any]:
    for each in said:
        if isinstance(each, Precision):
            return {"type": "bytes", "logicalType": "decimal", "precision": each.digits, "scale": each.scale}
    raise TypeError("a Decimal needs its digits: Annotated[Decimal, Precision(10, 2)]")


def _json_default(default: Any) -> Any:
    """A default as a schema says it; what cannot be said there is no default of the schema."""
    made = plain(default, "avro") if default is not MISSING else MISSING
    if isinstance(made, dict):
        made.pop(RECORD_HINT, None)
        return made if not made else MISSING
    if isinstance(made, bytes):
        return made.decode("latin-1")
    return made if made is None or isinstance(made, bool | int | float | str) or made == [] else MISSING
