"""Avro schemas that build on others, made whole: the definition of a name stands where it is used first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

_NAMED: Final = ("record", "error", "enum", "fixed")
_PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def whole(text: str, others: Iterable[str]) -> Any:
    """A schema with those that it builds on inside; raises ValueError for what is no JSON."""
    schema = json.loads(text) if text.lstrip()[:1] in ('"', "{", "[") else text.strip()
    definitions: dict[str, tuple[Any, str]] = {}
    for other in others:
        _define(json.loads(other), "", definitions)
    return _Joining(definitions).join(schema, "") if definitions else schema


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _own(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """The full name of a definition, and the namespace inside of it."""
    name = _full(str(schema.get("name", "")), str(schema.get("namespace", namespace) or ""))
    return name, name.rpartition(".")[0]


def _define(schema: Any, namespace: str, found: dict[str, tuple[Any, str]]) -> None:
    if isinstance(schema, list):
        for each in schema:
            _define(each, namespace, found)
    elif isinstance(schema, dict):
        inner = namespace
        if schema.get("type") in _NAMED:
            name, inner = _own(schema, namespace)
            found.setdefault(name, (schema, namespace))
        for field in schema.get("fields") or ():
            _define(field.get("type"), inner, found)
        for key in ("items", "values", "type"):
            if isinstance(schema.get(key), dict | list):
                _define(schema[key], inner, found)


class _Joining:
    """One schema in the making."""

    def __init__(self, definitions: dict[str, tuple[Any, str]]) -> None:
        self._definitions = definitions
        self._defined: set[str] = set()

    def join(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._name(schema, namespace)
        if isinstance(schema, list):
            return [self.join(each, namespace) for each in schema]
        if not isinstance(schema, dict):
            return schema
        made = dict(schema)
        if schema.get("type") in _NAMED:
            name, namespace = _own(schema, namespace)
            if name in self._defined:
                return name
            self._defined.add(name)
            # said in full, since it may stand within another namespace now
            made["name"], made["namespace"] = name.rpartition(".")[2], namespace
            if "fields" in schema:
                made["fields"] = [{**each, "type": self.join(each["type"], namespace)} for each in schema["fields"]]
            return made
        for key in ("items", "values", "type"):
            if key in schema:
                made[key] = self.join(schema[key], namespace)
        return made

    def _name(self, said: str, namespace: str) -> Any:
        if said in _PRIMITIVE or said in ("array", "map"):
            return said
        for name in (_full(said, namespace), said):
            if name in self._defined:
                return name
            if name in self._definitions:
                definition, within = self._definitions[name]
                return self.join(definition, within)
        return said


def has_weightless_lists(schema: Any) -> bool:
    """Whether a schema that is whole has arrays whose items take no bytes: their number is bounded by nothing."""
    return _Weighing().has_lists(schema)


class _Weighing:
    """What is known of the names in a schema."""

    def __init__(self) -> None:
        self._weightless: dict[str, bool] = {}

    def has_lists(self, schema: Any) -> bool:
        if isinstance(schema, list):
            return True in [self.has_lists(each) for each in schema]  # all of them: they may define names
        if not isinstance(schema, dict):
            return False
        kind = schema.get("type")
        if kind in ("record", "error"):
            found = True in [self.has_lists(each["type"]) for each in schema["fields"]]
            self._weightless[str(schema["name"])] = self._is_weightless(schema)
            return found
        if kind == "array":
            inside = self.has_lists(schema["items"])
            return inside or self._is_weightless(schema["items"])
        if kind == "map":
            return self.has_lists(schema["values"])
        if kind == "fixed":
            self._weightless[str(schema["name"])] = self._is_weightless(schema)
        return isinstance(kind, dict | list) and self.has_lists(kind)

    def _is_weightless(self, schema: Any) -> bool:
        if isinstance(schema, str):
            return schema == "null" or self._weightless.get(schema, False)
        if not isinstance(schema, dict):
            return False  # a union says in a byte which one it is
        kind = schema.get("type")
        if kind in ("record", "error"):
            return all(self._is_weightless(each["type"]) for each in schema["fields"])
        if kind == "fixed":
            return int(schema.get("size", 1)) == 0
        return kind == "null" or (isinstance(kind, dict) and self._is_weightless(kind))
