"""What a few bytes of Avro can do to their reader, seen before the library reads them.

Types that have themselves let it call itself until the process ends, some thousand levels down; numbers of a hundred
thousand digits take it minutes; and fields without bytes let each byte stand for thousands of values. Schemas that have
nothing of that cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

MAX_DEPTH: Final = 400
"""Of types within each other, unions included."""
MAX_DECIMAL_BYTES: Final = 4096
ANY_DECIMAL_BYTES: Final = 16 * 1024
"""Up to here the numbers of a record take no time to speak of."""
FEW_WEIGHTLESS: Final = 8
SPARE_VALUES: Final = 100_000
"""So many values more than twice its bytes may be in a record."""
_LONGEST_NUMBER: Final = 63
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS: Final = frozenset({"int", "long", "enum"})
_RECORDS: Final = frozenset({"record", "error"})
_NAMED: Final = frozenset({*_RECORDS, "enum", "fixed"})


class AvroBounds:
    """Of one schema, as the library has parsed it."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()
        self._empty: set[str] = set()
        self._weightless = 0
        self._has_itself = self._has_decimals = False
        self._learn(schema)

    def _learn(self, schema: Any) -> bool:
        """Whether a type takes no bytes."""
        if isinstance(schema, list):
            for each in schema:
                if each != "null":
                    self._learn(each)
            return False  # which of them it is takes a byte
        if isinstance(schema, str):
            self._has_itself |= schema in self._open
            found = schema == "null" or schema in self._empty
        else:
            self._has_decimals |= schema.get("logicalType") == "decimal"
            found = self._learn_defined(schema)
        self._weightless += found
        return found

    def _learn_defined(self, schema: dict[str, Any]) -> bool:
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self._learn(kind)
        if kind in ("array", "map"):
            self._learn(schema["items" if kind == "array" else "values"])
            return False
        if kind not in _NAMED:
            return bool(kind == "null")
        name = str(schema["name"])
        self._named[name] = schema
        found = kind == "fixed" and not schema["size"]
        if kind in _RECORDS:
            self._open.add(name)
            found = False not in [self._learn(field["type"]) for field in schema["fields"]]
            self._open.discard(name)
        if found:
            self._empty.add(name)
        return found

    def check(self, data: bytes, at: int = 0) -> None:
        """Raise ValueError for bytes that are better not read, from a place on."""
        risky = self._has_itself or self._weightless >= FEW_WEIGHTLESS
        if risky or (self._has_decimals and len(data) > ANY_DECIMAL_BYTES):
            _Walk(data, self._named, at).through(self._schema)


class _Walk:
    """The bytes of one value, gone through without making anything of them."""

    def __init__(self, data: bytes, named: dict[str, Any], at: int = 0) -> None:
        self._data = data
        self._named = named
        self._at = at

    def through(self, schema: Any) -> None:
        left = 2 * len(self._data) + SPARE_VALUES
        levels: list[Iterator[Any]] = [iter((schema,))]
        while levels:
            each = next(levels[-1], None)
            if each is None:
                levels.pop()
                continue
            left -= 1
            if left < 0:
                raise ValueError("it has far more values than bytes")
            within = self._within(each)
            if within is not None:
                if len(levels) >= MAX_DEPTH:
                    raise ValueError(f"it is more than {MAX_DEPTH} levels deep")
                levels.append(within)

    def _within(self, schema: Any) -> Iterator[Any] | None:
        """The types of what is within a value; of one that has nothing within, the bytes are passed."""
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        if isinstance(schema, list):
            index = self._number()
            if not 0 <= index < len(schema):
                raise ValueError(f"a union has no type {index}")
            return iter((schema[index],))
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return iter((kind,))
        if kind in _RECORDS:
            return (field["type"] for field in schema["fields"])
        if kind == "array":
            return self._blocks(schema["items"], is_map=False)
        if kind == "map":
            return self._blocks(schema["values"], is_map=True)
        self._pass(kind, schema)
        return None

    def _pass(self, kind: str, schema: Any) -> None:
        if kind in _NUMBERS:
            self._number()
            return
        size = schema["size"] if kind == "fixed" else _SIZES.get(kind)
        if size is None:
            size = self._number()
        decimal = isinstance(schema, dict) and schema.get("logicalType") == "decimal"
        if decimal and size > MAX_DECIMAL_BYTES:
            raise ValueError(f"a decimal has {size} bytes")
        self._skip(size)

    def _blocks(self, of: Any, *, is_map: bool) -> Iterator[Any]:
        while count := self._number():
            if count < 0:
                self._number()  # how many bytes they take
            for _ in range(abs(count)):
                if is_map:
                    self._skip(self._number())
                yield of

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError("it ends too early")
        self._at += size

    def _number(self) -> int:
        found = shift = 0
        while True:
            if self._at >= len(self._data) or shift > _LONGEST_NUMBER:
                raise ValueError("it ends within a number" if shift <= _LONGEST_NUMBER else "a number is too long")
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
