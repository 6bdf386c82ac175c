"""The declaration language of wire messages: typed classes whose annotations say what is on the wire, and since when.

    @request(key=68, versions="0-1", flexible="0+")
    class ConsumerGroupHeartbeatRequest:
        group_id: str
        subscribed_topic_regex: Annotated[str | None, since(1)] = None

Declaring a class is cheap: it only gets slots. Its annotations are read and its `__init__` is compiled at first use.
Messages are frozen for type checkers only, because a class frozen at run time is several times slower to build.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, dataclass_transform, get_args, get_origin

from kavka.model.types import FileSlice, Uuid

M = TypeVar("M")

MAX_VERSION: Final = 0x7FFF
EVERY: Final = range(MAX_VERSION + 1)
NEVER: Final = range(0)


class Scalar(NamedTuple):
    """A type of fixed size: its name, its `struct` code, its size in bytes."""

    name: str
    code: str
    size: int


class Variable(NamedTuple):
    """A type that carries its length: string, bytes or records."""

    name: str


class Array(NamedTuple):
    """A counted sequence of one type."""

    element: Scalar | Variable | Struct


class Struct(NamedTuple):
    """A nested declared class."""

    cls: type[Message]


WireType = Scalar | Variable | Array | Struct

BOOL: Final = Scalar("bool", "?", 1)
UUID: Final = Scalar("uuid", "16s", 16)
STRING: Final = Variable("string")
BYTES: Final = Variable("bytes")
RECORDS: Final = Variable("records")

Int8 = Annotated[int, Scalar("int8", "b", 1)]
Int16 = Annotated[int, Scalar("int16", "h", 2)]
Int32 = Annotated[int, Scalar("int32", "i", 4)]
Int64 = Annotated[int, Scalar("int64", "q", 8)]
UInt16 = Annotated[int, Scalar("uint16", "H", 2)]
UInt32 = Annotated[int, Scalar("uint32", "I", 4)]
Float64 = Annotated[float, Scalar("float64", "d", 8)]
Records = Annotated[bytes | bytearray | memoryview | FileSlice, RECORDS]
"""Record batches as they are: decoded as a view of the input, encoded from memory or from a file."""

_PLAIN: Final[dict[object, Scalar | Variable]] = {bool: BOOL, Uuid: UUID, str: STRING, bytes: BYTES}


class _Present(NamedTuple):
    versions: range


class _Null(NamedTuple):
    versions: range


class _Tag(NamedTuple):
    number: int


class _Ignorable(NamedTuple):
    """Marks a field that is silently left out at versions that do not have it."""


IGNORABLE: Final = _Ignorable()


def since(first: int) -> _Present:
    """The field is on the wire from this version on."""
    return _Present(range(first, EVERY.stop))


def until(last: int) -> _Present:
    """The field is on the wire up to this version."""
    return _Present(range(last + 1))


def between(first: int, last: int) -> _Present:
    """The field is on the wire at these versions only."""
    return _Present(range(first, last + 1))


def null_since(first: int) -> _Null:
    """The field, although optional in its type, may be null only from this version on."""
    return _Null(range(first, EVERY.stop))


OWN_TAGS: Final = 10_000
"""Tags from here on are of fields that Kafka does not have, and passes over."""


def tag(number: int) -> _Tag:
    """The field is a tagged one: left out of the wire while it has its default."""
    return _Tag(number)


class _Fresh(NamedTuple):
    """Stands for a default that is built anew for each message."""


FRESH: Final = _Fresh()
REQUIRED: Final = object()


def fresh() -> Any:
    """The default of a list or struct field: a new empty list, a new struct of defaults."""
    return FRESH


class Declared(NamedTuple):
    """What a decorator said of a whole message."""

    key: int
    versions: range
    flexible: range
    latest_version_unstable: bool = False


class Field(NamedTuple):
    """One field of a declared class, as its annotation describes it."""

    name: str
    type: WireType
    versions: range
    nullable: range
    tag: int | None
    ignorable: bool
    default: object

    @property
    def implied(self) -> object:
        """The value that stands for an absent field: its default, or else the zero of its type."""
        return _zero(self.type) if self.default is REQUIRED else self.default


class Message:
    """What every declared class is made a subclass of."""

    __slots__ = ()
    __api__: Declared | None = None
    __fields__: tuple[Field, ...] | None = None
    __defaults__: dict[str, object]

    def __init__(self, **values: Any) -> None:
        setattr(type(self), "__init__", _compile_init(type(self)))  # noqa: B010  (mypy refuses the plain assignment)
        type(self).__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).__annotations__)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__annotations__)
        return f"{type(self).__name__}({values})"


@dataclass_transform(kw_only_default=True, frozen_default=True)
def message(cls: type[M]) -> type[M]:
    """Declare a struct that messages are made of."""
    return _declare(cls, None)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def request(
    *, key: int, versions: str, flexible: str, latest_version_unstable: bool = False
) -> Callable[[type[M]], type[M]]:
    """Declare the request of an API."""
    api = Declared(key, parse_versions(versions), parse_versions(flexible), latest_version_unstable)
    return lambda cls: _declare(cls, api)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def response(*, key: int, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    """Declare the response of an API."""
    api = Declared(key, parse_versions(versions), parse_versions(flexible))
    return lambda cls: _declare(cls, api)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def record(*, key: int, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    """Declare a record that a log remembers, known by its key within that log."""
    api = Declared(key, parse_versions(versions), parse_versions(flexible))
    return lambda cls: _declare(cls, api)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def data(*, versions: str, flexible: str) -> Callable[[type[M]], type[M]]:
    """Declare a message that has versions but no key."""
    api = Declared(-1, parse_versions(versions), parse_versions(flexible))
    return lambda cls: _declare(cls, api)


def replace(original: M, **changes: object) -> M:
    """A copy of a message with some fields changed."""
    cls = type(original)
    copy = cls.__new__(cls)
    for name in cls.__annotations__:
        setattr(copy, name, changes.pop(name) if name in changes else getattr(original, name))
    if changes:
        raise TypeError(f"{cls.__name__} has no field {', '.join(changes)}")
    return copy


def declared(cls: type) -> Declared:
    """Key, versions and flexible versions of a whole message."""
    found: Declared | None = getattr(cls, "__api__", None)
    if found is None:
        raise TypeError(f"{cls.__name__} is not a whole message: it has no versions of its own")
    return found


def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a declared class, in wire order."""
    if not issubclass(cls, Message):
        raise TypeError(f"{cls.__name__} is not declared as a message")
    if cls.__fields__ is None:
        names = vars(sys.modules[cls.__module__])
        cls.__fields__ = tuple(
            _read_field(name, eval(hint, names) if isinstance(hint, str) else hint, cls.__defaults__)
            for name, hint in cls.__annotations__.items()
        )
    return cls.__fields__


def holds_records(cls: type, version: int) -> bool:
    """Whether a message carries record batches at a version."""
    for field in fields_of(cls):
        kind = field.type.element if isinstance(field.type, Array) else field.type
        if version in field.versions and (
            kind is RECORDS or (isinstance(kind, Struct) and holds_records(kind.cls, version))
        ):
            return True
    return False


def parse_versions(text: str) -> range:
    """Read Kafka's way to write version ranges: "3", "0-4", "2+" or "none"."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return range(int(text[:-1]), EVERY.stop)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def common_versions(ours: range, theirs: range) -> range:
    """The versions that both ranges have."""
    first, stop = max(ours.start, theirs.start), min(ours.stop, theirs.stop)
    return range(first, stop) if first < stop else NEVER


def _declare(cls: type[M], api: Declared | None) -> type[M]:
    body, names = cls.__dict__, cls.__annotations__
    namespace: dict[str, object] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": names,
        "__slots__": tuple(names),
        "__defaults__": {name: body[name] for name in names if name in body},
        "__fields__": None,
        "__api__": api,
    }
    return type(cls.__name__, (Message,), namespace)


def _read_field(name: str, hint: Any, defaults: dict[str, object]) -> Field:
    versions, nullable = EVERY, None
    number: int | None = None
    ignorable = False
    marks: tuple[object, ...] = ()
    if get_origin(hint) is Annotated:
        marks = hint.__metadata__
        if not any(isinstance(mark, Scalar | Variable) for mark in marks):
            hint = hint.__origin__
    kind, optional = _read_type(hint)
    for mark in marks:
        match mark:
            case _Present(present):
                versions = present
            case _Null(at):
                nullable = at
            case _Tag(given):
                number = given
            case _Ignorable():
                ignorable = True
    if nullable is None:
        nullable = versions if optional else NEVER
    return Field(
        name, kind, versions, common_versions(nullable, versions), number, ignorable, defaults.get(name, REQUIRED)
    )


def _read_type(hint: Any) -> tuple[WireType, bool]:
    if get_origin(hint) is Annotated:
        for mark in hint.__metadata__:
            if isinstance(mark, Scalar | Variable):
                return mark, False
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (arm for arm in get_args(hint) if arm is not type(None))
        return _read_type(inner)[0], True
    if get_origin(hint) is list:
        element, _ = _read_type(get_args(hint)[0])
        assert not isinstance(element, Array)
        return Array(element), False
    if hint in _PLAIN:
        return _PLAIN[hint], False
    return Struct(hint), False


def _zero(kind: WireType) -> object:
    match kind:
        case Scalar("bool"):
            return False
        case Scalar("uuid"):
            return Uuid.ZERO
        case Scalar("float64"):
            return 0.0
        case Scalar():
            return 0
        case Variable("string"):
            return ""
        case Variable():
            return b""
        case _:
            return FRESH


def new_default(field: Field) -> object:
    """A value for an absent field."""
    value = field.implied
    if value is not FRESH:
        return value
    if isinstance(field.type, Struct):
        return build_default(field.type.cls)
    return []


def build_default(cls: type[M]) -> M:
    """A struct in which every field has its default or the zero of its type."""
    built = cls.__new__(cls)
    for field in fields_of(cls):
        setattr(built, field.name, new_default(field))
    return built


def _compile_init(cls: type[Message]) -> Callable[..., None]:
    """Write `__init__` for a class: keyword-only, with the declared defaults."""
    names: dict[str, object] = {"FRESH": FRESH, "build_default": build_default}
    parameters, lines = [], []
    for name in cls.__annotations__:
        value = cls.__defaults__.get(name, REQUIRED)
        parameters.append(name if value is REQUIRED else f"{name}=default_{name}")
        if value is not FRESH:
            names[f"default_{name}"] = value
            lines.append(f" self.{name} = {name}")
            continue
        names[f"default_{name}"] = FRESH
        field = next(field for field in fields_of(cls) if field.name == name)
        make = "[]"
        if isinstance(field.type, Struct):
            names[f"type_{name}"] = field.type.cls
            simple = len(field.type.cls.__annotations__) == len(field.type.cls.__defaults__)
            make = f"type_{name}()" if simple else f"build_default(type_{name})"
        lines.append(f" self.{name} = {make} if {name} is FRESH else {name}")
    head = f"def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}):"
    exec("\n".join([head, *lines, " pass"]), names)
    init: Any = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init  # type: ignore[no-any-return]
