"""Classes as schemas: dataclasses, and pydantic's models where a program has them.

What a class says of its fields becomes a schema elsewhere; here instances become plain values (dicts, lists and what
formats know) and plain values become instances. Pydantic is not imported: its models do this themselves.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

Form = Literal["avro", "json"]

MISSING: Final = dataclasses.MISSING
RECORD_HINT: Final = "-type"
"""By which fastavro is told which record of a union a dict is."""


class Precision(NamedTuple):
    """How many digits a Decimal has in Avro, as in `Annotated[Decimal, Precision(10, 2)]`."""

    digits: int
    scale: int


class ModelField(NamedTuple):
    """A field of a class."""

    name: str
    kind: Any
    default: Any
    """MISSING where there is none; a factory's, if it makes something empty."""


def is_pydantic(kind: Any) -> bool:
    """Whether a class is a model of pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def is_model(kind: Any) -> bool:
    """Whether a class can be a schema."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or is_pydantic(kind))


def fields_of(kind: type) -> list[ModelField]:
    """The fields of a class, in their order; raises TypeError if it cannot be a schema."""
    if is_pydantic(kind):
        return [_pydantic_field(name, each) for name, each in kind.model_fields.items()]  # type: ignore[attr-defined]
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is neither a dataclass nor a model of pydantic")
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        ModelField(each.name, hints[each.name], _default(each.default, each.default_factory))
        for each in dataclasses.fields(kind)
        if each.init
    ]


def _pydantic_field(name: str, found: Any) -> ModelField:
    kind = Annotated[(found.annotation, *found.metadata)] if found.metadata else found.annotation
    required = found.is_required()
    default = MISSING if required else _default(found.default, found.default_factory or MISSING)
    return ModelField(found.serialization_alias or found.alias or name, kind, default)


def _default(value: Any, factory: Any) -> Any:
    if value is not MISSING and type(value).__name__ != "PydanticUndefinedType":
        return value
    return factory() if factory in (list, dict, set, tuple) else MISSING


def bare(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its annotations, and those."""
    if get_origin(kind) is Annotated:
        inner, *said = get_args(kind)
        return inner, tuple(said)
    return kind, ()


def alternatives(kind: Any) -> list[Any] | None:
    """The types of a union; None for what is none."""
    if get_origin(kind) in (Union, types.UnionType):
        return list(get_args(kind))
    return None


# -- instances become plain values ---------------------------------------------------------------


def plain(value: Any, form: Form) -> Any:
    """What a format's library can write of a value."""
    if isinstance(value, Enum):
        return value.name if form == "avro" else plain(value.value, form)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_pydantic(type(value)):
        if form == "json":
            return value.model_dump(mode="json", by_alias=True)
        said = {each.name: getattr(value, name) for name, each in _named(type(value))}
        return {RECORD_HINT: name_of(type(value)), **{name: plain(each, form) for name, each in said.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = {each.name: plain(getattr(value, each.name), form) for each in dataclasses.fields(value)}
        return {RECORD_HINT: name_of(type(value)), **made} if form == "avro" else made
    if isinstance(value, Mapping):
        return {key: plain(each, form) for key, each in value.items()}
    if isinstance(value, list | AbstractSet) or (isinstance(value, tuple) and form == "json"):
        return [plain(each, form) for each in value]
    if isinstance(value, tuple):  # fastavro's way to name a branch of a union, or a sequence
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], Mapping):
            return value[0], plain(value[1], form)
        return [plain(each, form) for each in value]
    return value if form == "avro" else _json_value(value)


def _named(kind: Any) -> list[tuple[str, ModelField]]:
    return list(zip(kind.model_fields, fields_of(kind), strict=True))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be said in JSON")


def name_of(kind: type) -> str:
    """The full name of a class in Avro: it may say a namespace as `__namespace__`."""
    namespace = getattr(kind, "__namespace__", "")
    return f"{namespace}.{kind.__name__}" if namespace else kind.__name__


# -- plain values become instances ---------------------------------------------------------------


def instance(kind: Any, value: Any, form: Form) -> Any:
    """An instance of a type with what a plain value says; raises ValueError or TypeError."""
    kind, _ = bare(kind)
    branches = alternatives(kind)
    if branches is not None:
        return _one_of(branches, value, form)
    if is_pydantic(kind):
        return kind.model_validate(value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, value, form)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (list, set, frozenset, tuple, Sequence):
        inner = arguments[0] if arguments else Any
        made = [instance(inner, each, form) for each in _expected(value, list, kind)]
        return made if origin in (list, Sequence) else origin(made)
    if origin in (dict, Mapping):
        inner = arguments[1] if len(arguments) == 2 else Any
        return {key: instance(inner, each, form) for key, each in _expected(value, dict, kind).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[value] if form == "avro" else kind(value)
    return _scalar(kind, value)


def _expected(value: Any, wanted: type, kind: Any) -> Any:
    if not isinstance(value, wanted):
        raise ValueError(f"{kind} was expected, not {type(value).__name__}")
    return value


def _record(kind: type, value: Any, form: Form) -> Any:
    if isinstance(value, tuple) and len(value) == 2:  # a record of a union with its name
        value = value[1]
    said = _expected(value, dict, kind.__name__)
    known = {each.name: each for each in fields_of(kind)}
    unknown = said.keys() - known.keys() - {RECORD_HINT}
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {min(unknown)!r}")
    made = {name: instance(known[name].kind, each, form) for name, each in said.items() if name in known}
    try:
        return kind(**made)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _one_of(branches: list[Any], value: Any, form: Form) -> Any:
    if value is None:
        if type(None) in branches:
            return None
        raise ValueError("a value was expected, not null")
    others = [each for each in branches if each is not type(None)]
    if len(others) == 1:
        return instance(others[0], value, form)
    if isinstance(value, tuple) and len(value) == 2:
        named = [each for each in others if is_model(each) and name_of(each) == value[0]]
        if named:
            return instance(named[0], value[1], form)
    exact = [each for each in others if each is type(value)]
    for branch in exact or others:
        try:
            return instance(branch, value, form)
        except (ValueError, TypeError, KeyError):
            continue  # the next one may fit
    raise ValueError(f"{type(value).__name__} is none of {', '.join(str(each) for each in others)}")


_PARSERS: Final[dict[Any, Callable[[str], Any]]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
    Decimal: Decimal,
    bytes: lambda text: base64.b64decode(text, validate=True),
}


def _scalar(kind: Any, value: Any) -> Any:
    if kind is Any or get_origin(kind) is Literal:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    parse = _PARSERS.get(kind)
    if parse is not None and isinstance(value, str):
        return parse(value)
    if isinstance(kind, type) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ValueError(f"{kind.__name__} was expected, not {type(value).__name__}")
    return value
