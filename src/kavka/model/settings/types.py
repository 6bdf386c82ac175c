"""What a setting is: its name, kind, default, what it allows and how it may change.

A `Kind` builds the settings of its type, so that a table reads as one row per key and the type of
`values[SETTING]` is known to the type checker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
V = TypeVar("V", covariant=True)


class SettingError(ValueError):
    """A value that a setting does not allow: one line that names the key and what is allowed."""


class Update(Enum):
    """When and for whom a broker setting may change; the value is Kafka's name for it."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER = "cluster-wide"


class Source(Enum):
    """Where a value comes from, by its code in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Password:
    """A secret that shows itself only to those who ask for `value`."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return "[hidden]"


class Check(NamedTuple):
    """What a value must be, in words and as a test."""

    allowed: str
    holds: Callable[[Any], bool]


class Synonym(NamedTuple):
    """A broker setting that stands for another one, and what its number is multiplied by."""

    setting: Setting[Any]
    scale: int = 1


class Setting(Generic[V]):
    """One configuration key. A key without `doc` is accepted and reported but has no effect yet."""

    __slots__ = ("check", "default", "doc", "internal", "kind", "name", "synonyms", "update")

    def __init__(
        self,
        kind: Kind[Any],
        name: str,
        default: V,
        check: Check | None,
        update: Update,
        doc: str,
        internal: bool,
        synonyms: tuple[Synonym, ...],
    ) -> None:
        self.kind = kind
        self.name = name
        self.default = default
        self.check = check
        self.update = update
        self.doc = doc
        self.internal = internal
        self.synonyms = synonyms

    def __repr__(self) -> str:
        return f"Setting({self.name})"

    @property
    def honoured(self) -> bool:
        """Whether the node acts on it."""
        return bool(self.doc)

    @property
    def sensitive(self) -> bool:
        """Whether its value must never be shown."""
        return self.kind is PASSWORD

    @property
    def allowed(self) -> str:
        """The allowed values in words; empty when the kind says it all."""
        return self.check.allowed if self.check else ""

    def parse(self, text: str) -> V:
        """The value a text stands for; raises SettingError."""
        shown = "the value" if self.sensitive else repr(text)
        try:
            value = self.kind.parse(text.strip(BLANKS))
        except ValueError as error:
            raise SettingError(f"{self.name}: {shown} is not {error}") from None
        if self.check is not None and not self.check.holds(value):
            raise SettingError(f"{self.name}: {shown} is not allowed, it must be {self.check.allowed}")
        return value  # type: ignore[no-any-return]

    def text(self, value: Any) -> str | None:
        """A value as DescribeConfigs writes it."""
        return None if value is None else self.kind.text(value)


class Kind(Generic[T]):
    """A type of setting: its name, its code in DescribeConfigs, how text becomes a value and back."""

    __slots__ = ("code", "name", "parse", "text")

    def __init__(self, name: str, code: int, parse: Callable[[str], T], text: Callable[[T], str] = str) -> None:
        self.name = name
        self.code = code
        self.parse = parse
        self.text = text

    def __repr__(self) -> str:
        return self.name

    def __call__(
        self,
        name: str,
        default: T,
        check: Check | None = None,
        update: Update = Update.READ_ONLY,
        doc: str = "",
        *,
        internal: bool = False,
        synonyms: tuple[Synonym, ...] = (),
    ) -> Setting[T]:
        """A setting of this kind with a default."""
        return Setting(self, name, default, check, update, doc, internal, synonyms)

    def optional(
        self,
        name: str,
        check: Check | None = None,
        update: Update = Update.READ_ONLY,
        doc: str = "",
        *,
        internal: bool = False,
    ) -> Setting[T | None]:
        """A setting of this kind that has no value unless it is given one."""
        return Setting(self, name, None, check, update, doc, internal, ())


BLANKS: Final = "".join(map(chr, range(33)))
"""What Kafka trims around a value: the space and every control character below it."""


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false")
    return lowered == "true"


def _whole(bits: int) -> Callable[[str], int]:
    high = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        # int() would also take underscores and inner blanks, which Kafka refuses
        if not digits.isdecimal() or len(digits) > 64 or not -high <= (value := int(text)) < high:
            raise ValueError(f"a whole number of {bits} bits")
        return value

    return parse


def _double(text: str) -> float:
    bare = text[:-1] if text[-1:] in ("d", "D", "f", "F") else text
    if bare.strip("+-") != "Infinity" and not set(bare) <= set("+-.eE0123456789"):
        raise ValueError("a number")
    try:
        return float(bare)
    except ValueError:
        raise ValueError("a number") from None


def _double_text(value: float) -> str:
    """As Java writes a double, because tools compare the text."""
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(value)
    if size == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    mantissa, _, exponent = f"{value:e}".partition("e")
    for digits in range(17):
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        if float(f"{mantissa}e{exponent}") == value:
            break
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{int(exponent)}"


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip(BLANKS) for part in text.split(",")) if text else ()


BOOLEAN: Final = Kind("boolean", 1, _boolean, lambda value: "true" if value else "false")
STRING: Final = Kind("string", 2, str)
INT: Final = Kind("int", 3, _whole(32))
SHORT: Final = Kind("short", 4, _whole(16))
LONG: Final = Kind("long", 5, _whole(64))
DOUBLE: Final = Kind("double", 6, _double, _double_text)
LIST: Final = Kind("list", 7, _list, ",".join)
SET: Final = Kind("list", 7, lambda text: tuple(dict.fromkeys(_list(text))), ",".join)
"""A list whose repeated values count once."""
CLASS: Final = Kind("class", 8, str)
PASSWORD: Final = Kind("password", 9, Password, lambda secret: secret.value)

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DOUBLE_MAX: Final = 1.7976931348623157e308


def at_least(low: float) -> Check:
    """A number not below a bound."""
    return Check(f"at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Check:
    """A number within two bounds, both allowed."""
    return Check(f"between {low} and {high}", lambda value: low <= value <= high)


def one_of(*names: str) -> Check:
    """A text out of a few."""
    return Check(f"one of {', '.join(names)}", lambda value: value in names)


def one_of_any_case(*names: str) -> Check:
    """A text out of a few, in any case."""
    upper = {name.upper() for name in names}
    return Check(f"one of {', '.join(names)}", lambda value: value.upper() in upper)


def some_of(*names: str, empty: bool = True) -> Check:
    """A list of texts out of a few."""
    words = f"a list of {', '.join(names)}" + ("" if empty else ", not empty")
    return Check(words, lambda value: (empty or bool(value)) and all(entry in names for entry in value))


AT_LEAST_0: Final = at_least(0)
AT_LEAST_1: Final = at_least(1)
NOT_EMPTY: Final = Check("a text that is not empty", bool)
NO_BLANKS: Final = Check("a list without empty entries", all)
FILLED: Final = Check("a list that is not empty and has no empty entries", lambda value: bool(value) and all(value))


def collect(names: Mapping[str, object]) -> dict[str, Setting[Any]]:
    """The settings among a module's names, by key, in the order they are written."""
    return {value.name: value for value in names.values() if isinstance(value, Setting)}
