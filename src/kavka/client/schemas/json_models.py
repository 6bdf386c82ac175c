"""JSON schemas of classes: pydantic's models have their own, those of dataclasses are made here.

They are closed (no other properties), as those that Confluent's Java serializer derives: only then may a field be added
later under the usual rules of compatibility.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, get_args, get_origin

from kavka.client.schemas.models import MISSING, alternatives, bare, fields_of, is_model, is_pydantic, plain

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_SIMPLE: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    type(None): {"type": "null"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string"},
    Any: {},
}


def json_schema_of(kind: type) -> str:
    """The JSON schema of a class; raises TypeError for a field that cannot be said in one."""
    if is_pydantic(kind):
        made: dict[str, Any] = kind.model_json_schema(mode="serialization")  # type: ignore[attr-defined]
    else:
        deriving = _Deriving(kind)
        made = {"$schema": DRAFT, "title": kind.__name__, **deriving.record(kind)}
        if deriving.definitions:
            made["definitions"] = deriving.definitions
    return json.dumps(made, separators=(",", ":"))


class _Deriving:
    """One schema in the making."""

    def __init__(self, root: type) -> None:
        self._root = root
        self._known: dict[str, type] = {}
        self.definitions: dict[str, Any] = {}

    def record(self, kind: type) -> dict[str, Any]:
        properties, required = {}, []
        for field in fields_of(kind):
            try:
                said = dict(self._type(field.kind))
            except TypeError as error:
                raise TypeError(f"{kind.__name__}.{field.name}: {error}") from None
            if field.default is MISSING:
                required.append(field.name)
            else:
                said["default"] = plain(field.default, "json")
            properties[field.name] = said
        made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            made["required"] = required
        return made

    def _type(self, kind: Any) -> dict[str, Any]:
        kind, _ = bare(kind)
        branches = alternatives(kind)
        if branches is not None:
            return {"oneOf": [self._type(each) for each in branches]}
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if is_model(kind):
            return self._reference(kind)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [plain(each, "json") for each in kind]}
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (list, set, frozenset, Sequence) and arguments:
            return {"type": "array", "items": self._type(arguments[0])}
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self._type(arguments[0])}
        if origin in (dict, Mapping) and len(arguments) == 2 and arguments[0] is str:
            return {"type": "object", "additionalProperties": self._type(arguments[1])}
        raise TypeError(f"JSON Schema has no type for {getattr(kind, '__name__', kind)}")

    def _reference(self, kind: type) -> dict[str, Any]:
        if kind is self._root:
            return {"$ref": "#"}
        name = kind.__name__
        before = self._known.setdefault(name, kind)
        if before is not kind:
            raise TypeError(f"two classes are called {name}")
        if name not in self.definitions:
            self.definitions[name] = {}  # it may refer to itself
            self.definitions[name] = self.record(kind)
        return {"$ref": f"#/definitions/{name}"}
