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
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

Form = Literal["avro", "json"]
Make = Callable[[Any], Any]
_ATOMS: Final = frozenset({type(None), bool, int, float, str})

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
    if type(value) in _ATOMS:
        return value
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


def maker(kind: Any, form: Form) -> Make:
    """What makes instances of a type of plain values; it raises ValueError or TypeError for those that do not fit."""
    return _Making(form).of(kind)


class _Making:
    """What is known of the classes that a type is made of, looked up once."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._records: dict[type, Make] = {}

    def of(self, kind: Any) -> Make:
        kind, _ = bare(kind)
        branches = alternatives(kind)
        if branches is not None:
            return self._union(branches)
        if is_pydantic(kind) and self._form == "json":
            return kind.model_validate  # type: ignore[no-any-return]
        if is_model(kind):
            return self._record(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (list, set, frozenset, tuple, Sequence):
            return self._list(kind, origin, arguments[0] if arguments else Any)
        if origin in (dict, Mapping):
            inner = self.of(arguments[1] if len(arguments) == 2 else Any)
            return lambda value: {key: inner(each) for key, each in _expected(value, dict, kind).items()}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind.__getitem__ if self._form == "avro" else kind
        return partial(_scalar, kind, _PARSERS.get(kind))

    def _list(self, kind: Any, origin: Any, inner: Any) -> Make:
        make = self.of(inner)
        collect = list if origin in (list, Sequence) else origin
        return lambda value: collect(make(each) for each in _expected(value, list, kind))

    def _record(self, kind: type) -> Make:
        known = self._records.get(kind)
        if known is not None:
            return known
        fields: dict[str, Make] = {}
        validate: Make | None = kind.model_validate if is_pydantic(kind) else None  # type: ignore[attr-defined]

        def make(value: Any) -> Any:
            if isinstance(value, tuple) and len(value) == 2:  # a record of a union with its name
                value = value[1]
            said = {}
            for name, each in _expected(value, dict, kind.__name__).items():
                field = fields.get(name)
                if field is not None:
                    said[name] = field(each)
                elif name != RECORD_HINT:
                    raise ValueError(f"{kind.__name__} has no field {name!r}")
            try:
                return kind(**said) if validate is None else validate(said)
            except TypeError as error:
                raise ValueError(str(error)) from None

        self._records[kind] = make  # before its fields: they may be of the same class
        fields.update((each.name, self.of(each.kind)) for each in fields_of(kind))
        return make

    def _union(self, branches: list[Any]) -> Make:
        others = [(bare(each)[0], self.of(each)) for each in branches if each is not type(None)]
        nothing = len(others) < len(branches)
        alone = others[0][1] if len(others) == 1 else None
        named = {name_of(kind): make for kind, make in others if is_model(kind)}

        def make(value: Any) -> Any:
            if value is None:
                if nothing:
                    return None
                raise ValueError("a value was expected, not null")
            if alone is not None:
                return alone(value)
            if isinstance(value, tuple) and len(value) == 2 and value[0] in named:
                return named[value[0]](value[1])
            exact = [make for kind, make in others if kind is type(value)]
            for attempt in exact or [make for _, make in others]:
                try:
                    return attempt(value)
                except (ValueError, TypeError, KeyError):
                    continue  # the next one may fit
            raise ValueError(f"{type(value).__name__} is none of {', '.join(str(kind) for kind, _ in others)}")

        return make


def _expected(value: Any, wanted: type, kind: Any) -> Any:
    if not isinstance(value, wanted):
        raise ValueError(f"{kind} was expected, not {type(value).__name__}")
    return value


_PARSERS: Final[dict[Any, Callable[[str], Any]]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
    Decimal: Decimal,
    bytes: lambda text: base64.b64decode(text, validate=True),
}


def _scalar(kind: Any, parse: Callable[[str], Any] | None, value: Any) -> Any:
    if type(value) is kind or kind is Any or get_origin(kind) is Literal:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if parse is not None and isinstance(value, str):
        return parse(value)
    if isinstance(kind, type) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ValueError(f"{kind.__name__} was expected, not {type(value).__name__}")
    return value
