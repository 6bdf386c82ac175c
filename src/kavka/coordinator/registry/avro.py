"""Avro schemas: read by the rules of the specification, written as Avro's own libraries write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kavka.coordinator.registry.schema import NO_REFERENCES, SchemaError
from kavka.coordinator.registry.texts import read_json, write_json

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
MAX_DEPTH: Final = 200

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSENT: Final = object()
_OF_TYPE: Final = {
    "record": frozenset({"type", "name", "namespace", "doc", "aliases", "fields"}),
    "enum": frozenset({"type", "name", "namespace", "doc", "aliases", "symbols", "default"}),
    "fixed": frozenset({"type", "name", "namespace", "doc", "aliases", "size"}),
    "array": frozenset({"type", "items"}),
    "map": frozenset({"type", "values"}),
}
_OF_FIELD: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})


@dataclass(eq=False, slots=True)
class Type:
    """A type of a schema; one that names itself stands in several places as the same object."""

    kind: str
    name: str = ""
    """The full name of a record, an enum or a fixed."""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    branches: list[Type] = field(default_factory=list)
    """Of a union; the one type of the items of an array or of the values of a map."""
    props: dict[str, Any] = field(default_factory=dict)
    """Attributes that the specification does not know, logical types among them."""

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: Type
    doc: str | None
    default: Any
    order: str | None
    aliases: tuple[str, ...]
    props: dict[str, Any]

    @property
    def has_default(self) -> bool:
        """Whether a reader has a value for it where the writer had none."""
        return self.default is not _ABSENT


class AvroSchema:
    """A schema and the ways to write it."""

    def __init__(self, root: Type, referred: frozenset[str]) -> None:
        self.root = root
        self._referred = referred

    @property
    def canonical(self) -> str:
        """With the attributes in the order of Avro's libraries, and no blanks."""
        return _dump(_written(self.root, "", set(self._referred), sort=False))

    @property
    def resolved(self) -> str:
        """With what it refers to in it."""
        return _dump(_written(self.root, "", set(), sort=False))

    @property
    def normalized(self) -> str:
        """The same for schemas that differ only in the order of attributes that the specification does not know."""
        return _dump(_written(self.root, "", set(self._referred), sort=True))


def parse(text: str, references: Mapping[str, str] = NO_REFERENCES) -> AvroSchema:
    """Read a schema; the names of the texts it refers to are known to it. Raises SchemaError."""
    known: dict[str, Type] = {}
    for name, referred in references.items():
        _read(_loaded(referred, f"reference {name}"), "", known, 0, "")
    referred_names = frozenset(known)
    return AvroSchema(_read(_loaded(text, "the schema"), "", known, 0, ""), referred_names)


def _loaded(text: str, what: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        if _NAME.fullmatch(text.strip()) and text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaError(f"{what} is not JSON") from None


# -- reading ------------------------------------------------------------------------------------------


def _read(found: Any, namespace: str, known: dict[str, Type], depth: int, path: str) -> Type:
    if depth > MAX_DEPTH:
        raise SchemaError(f"types are nested more than {MAX_DEPTH} deep")
    if isinstance(found, str):
        return _named(found, namespace, known, path)
    if isinstance(found, list):
        return _union(found, namespace, known, depth, path)
    if not isinstance(found, dict):
        raise SchemaError(f"{path or '/'}: a type is a name, a list or an object, not {json.dumps(found):.100}")
    kind = found.get("type")
    if isinstance(kind, dict | list):
        return _read(kind, namespace, known, depth + 1, path)
    if not isinstance(kind, str):
        raise SchemaError(f"{path or '/'}: no type")
    if kind in PRIMITIVES:
        return Type(kind, props=_props(found, frozenset({"type"})))
    if kind in NAMED:
        return _definition(kind, found, namespace, known, depth, path)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        if inner not in found:
            raise SchemaError(f"{path or '/'}: {kind} without {inner}")
        of = _read(found[inner], namespace, known, depth + 1, f"{path}/{inner}")
        return Type(kind, branches=[of], props=_props(found, _OF_TYPE[kind]))
    return _named(kind, namespace, known, path)


def _props(found: Mapping[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in reserved}


def _named(name: str, namespace: str, known: Mapping[str, Type], path: str) -> Type:
    if name in PRIMITIVES:
        return Type(name)
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    found = known.get(full) or known.get(name)
    if found is None:
        raise SchemaError(f"{path or '/'}: there is no type {full}")
    return found


def _union(found: list[Any], namespace: str, known: dict[str, Type], depth: int, path: str) -> Type:
    branches: list[Type] = []
    seen: set[str] = set()
    for number, each in enumerate(found):
        branch = _read(each, namespace, known, depth + 1, f"{path}/{number}")
        if branch.kind == "union":
            raise SchemaError(f"{path}/{number}: a union directly within a union")
        key = branch.name or branch.kind
        if key in seen:
            raise SchemaError(f"{path}/{number}: {key} twice in a union")
        seen.add(key)
        branches.append(branch)
    return Type("union", branches=branches)


def _definition(
    kind: str, found: Mapping[str, Any], namespace: str, known: dict[str, Type], depth: int, path: str
) -> Type:
    kind = "record" if kind == "error" else kind
    full = _full_name(found, namespace, path)
    own, _, _ = full.rpartition(".")
    if full in known:
        raise SchemaError(f"{path or '/'}: {full} is defined twice")
    made = Type(kind, full, _text(found, "doc", path), _aliases(found, own, path))
    made.props = _props(found, _OF_TYPE[kind])
    known[full] = made
    if kind == "record":
        _fields(made, found, own, known, depth, path)
    elif kind == "enum":
        _symbols(made, found, path)
    else:
        size = found.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise SchemaError(f"{path or '/'}: the size of {full} is not a number")
        made.size = size
    return made


def _full_name(found: Mapping[str, Any], namespace: str, path: str) -> str:
    name = found.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{path or '/'}: a {found['type']} without a name")
    given = found.get("namespace")
    if "." not in name:
        space = given if isinstance(given, str) else namespace
        name = f"{space}.{name}" if space else name
    for part in name.split("."):
        if not _NAME.fullmatch(part):
            raise SchemaError(f"{path or '/'}: illegal name {name!r}")
    if name in PRIMITIVES:
        raise SchemaError(f"{path or '/'}: {name} is the name of a primitive type")
    return name


def _text(found: Mapping[str, Any], key: str, path: str) -> str | None:
    text = found.get(key)
    if text is not None and not isinstance(text, str):
        raise SchemaError(f"{path or '/'}: {key} is not a string")
    return text


def _aliases(found: Mapping[str, Any], namespace: str, path: str) -> tuple[str, ...]:
    aliases = found.get("aliases", ())
    if not isinstance(aliases, list | tuple) or not all(isinstance(each, str) for each in aliases):
        raise SchemaError(f"{path or '/'}: aliases are not a list of names")
    return tuple(each if "." in each or not namespace else f"{namespace}.{each}" for each in aliases)


def _fields(
    made: Type, found: Mapping[str, Any], namespace: str, known: dict[str, Type], depth: int, path: str
) -> None:
    fields = found.get("fields")
    if not isinstance(fields, list):
        raise SchemaError(f"{path or '/'}: the record {made.name} has no list of fields")
    names: set[str] = set()
    for number, each in enumerate(fields):
        here = f"{path}/fields/{number}"
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise SchemaError(f"{here}: a field without a name")
        name = each["name"]
        if not _NAME.fullmatch(name):
            raise SchemaError(f"{here}: illegal name {name!r}")
        if name in names:
            raise SchemaError(f"{here}: the field {name} twice in {made.name}")
        names.add(name)
        if "type" not in each:
            raise SchemaError(f"{here}: the field {name} has no type")
        if each.get("order", "ascending") not in _ORDERS:
            raise SchemaError(f"{here}: illegal order {each['order']!r}")
        type_ = _read(each["type"], namespace, known, depth + 1, f"{here}/type")
        default = each.get("default", _ABSENT)
        if default is not _ABSENT and not fits(default, type_):
            raise SchemaError(f"{here}: the default of {name} is no {_said(type_)}: {json.dumps(default):.100}")
        aliases = _aliases(each, "", here)
        made.fields.append(
            Field(name, type_, _text(each, "doc", here), default, each.get("order"), aliases, _props(each, _OF_FIELD))
        )


def _symbols(made: Type, found: Mapping[str, Any], path: str) -> None:
    symbols = found.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(each, str) and _NAME.fullmatch(each) for each in symbols):
        raise SchemaError(f"{path or '/'}: the symbols of {made.name} are not a list of names")
    if len(set(symbols)) != len(symbols):
        raise SchemaError(f"{path or '/'}: a symbol twice in {made.name}")
    made.symbols = tuple(symbols)
    made.default = _text(found, "default", path)
    if made.default is not None and made.default not in symbols:
        raise SchemaError(f"{path or '/'}: the default {made.default!r} is not among the symbols of {made.name}")


def _said(type_: Type) -> str:
    return type_.name or type_.kind


_RANGES: Final = {"int": 1 << 31, "long": 1 << 63}


def fits(value: Any, type_: Type) -> bool:
    """Whether a JSON value can be the default of a field: for a union, of one of its branches."""
    match type_.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = _RANGES[type_.kind]
            return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "bytes" | "fixed":
            return isinstance(value, str) and all(ord(each) < 256 for each in value)
        case "enum":
            return value in type_.symbols
        case "array":
            return isinstance(value, list) and all(fits(each, type_.branches[0]) for each in value)
        case "map":
            return isinstance(value, dict) and all(fits(each, type_.branches[0]) for each in value.values())
        case "union":
            return any(fits(value, each) for each in type_.branches)
        case _:
            return isinstance(value, dict) and all(
                fits(value[each.name], each.type) if each.name in value else each.has_default for each in type_.fields
            )


# -- writing ------------------------------------------------------------------------------------------


def _dump(written: Any) -> str:
    return write_json(written)


def _written(type_: Type, namespace: str, done: set[str], *, sort: bool) -> Any:
    if type_.kind == "union":
        return [_written(each, namespace, done, sort=sort) for each in type_.branches]
    if type_.name:
        if type_.name in done:
            space, _, short = type_.name.rpartition(".")
            return short if space == namespace and short not in PRIMITIVES else type_.name
        done.add(type_.name)
    elif type_.kind in PRIMITIVES and not type_.props:
        return type_.kind
    return dict(_attributes(type_, namespace, done, sort))


def _attributes(type_: Type, namespace: str, done: set[str], sort: bool) -> Iterator[tuple[str, Any]]:
    yield "type", type_.kind
    own = namespace
    if type_.name:
        own, _, short = type_.name.rpartition(".")
        yield "name", short
        if own != namespace:
            yield "namespace", own
        if type_.doc is not None:
            yield "doc", type_.doc
    match type_.kind:
        case "record":
            yield "fields", [dict(_field_attributes(each, own, done, sort)) for each in type_.fields]
        case "enum":
            yield "symbols", list(type_.symbols)
            if type_.default is not None:
                yield "default", type_.default
        case "fixed":
            yield "size", type_.size
        case "array":
            yield "items", _written(type_.branches[0], own, done, sort=sort)
        case "map":
            yield "values", _written(type_.branches[0], own, done, sort=sort)
    yield from _ordered(type_.props, sort)
    if type_.aliases:
        yield "aliases", [_short_of(alias, own) for alias in type_.aliases]


def _short_of(alias: str, namespace: str) -> str:
    space, _, short = alias.rpartition(".")
    return short if space == namespace else alias


def _field_attributes(each: Field, namespace: str, done: set[str], sort: bool) -> Iterator[tuple[str, Any]]:
    yield "name", each.name
    yield "type", _written(each.type, namespace, done, sort=sort)
    if each.doc is not None:
        yield "doc", each.doc
    if each.has_default:
        yield "default", each.default
    if each.order not in (None, "ascending"):
        yield "order", each.order
    if each.aliases:
        yield "aliases", list(each.aliases)
    yield from _ordered(each.props, sort)


def _ordered(props: Mapping[str, Any], sort: bool) -> Iterator[tuple[str, Any]]:
    yield from sorted(props.items()) if sort else props.items()
