"""Messages to test with, made from their schemas: defaults, nulls, everything set, long, and mixed by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kavka.model.errors import BY_CODE
from kavka.model.types import Uuid
from kavka.protocol.schema import (
    Array,
    Field,
    Scalar,
    Struct,
    Variable,
    WireType,
    build_default,
    fields_of,
    new_default,
)

STYLES = ("defaults", "nulls", "full", "long", "mixed", "mixed", "mixed", "mixed")
INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
WORDS = ("", "a", "orders", "größe", "🐦 kavka", "x" * 126, "y" * 127, "z" * 300)
# Names decide which values another implementation has a meaning for: known error codes, times that are possible.
ERROR_CODES = (0, *BY_CODE)
LATEST_MS = 4_000_000_000_000  # later times are not exact as floating-point seconds


class Maker:
    """Makes one message in one style."""

    def __init__(self, version: int, style: str, seed: int) -> None:
        self.version = version
        self.style = style
        self.draw = random.Random(seed)

    def struct(self, cls: type, depth: int = 0) -> Any:
        made: Any = build_default(cls)
        for field in fields_of(cls):
            if self.version in field.versions:
                setattr(made, field.name, self.field(field, depth))
        return made

    def field(self, field: Field, depth: int) -> Any:
        nullable = self.version in field.nullable
        style = self.draw.choice(("defaults", "nulls", "full")) if self.style == "mixed" else self.style
        if style == "defaults" and (field.implied is not None or nullable):
            return new_default(field)
        if style == "nulls" and nullable:
            return None
        return self.value(field.type, field.name, depth)

    def value(self, kind: WireType, name: str, depth: int) -> Any:
        match kind:
            case Scalar():
                return self.scalar(kind, name)
            case Variable("string"):
                return (
                    self.draw.choice(WORDS) if self.style == "mixed" else ("s" * 200 if self.style == "long" else "π")
                )
            case Variable():
                return self.draw.randbytes(self.draw.choice((0, 1, 127, 128, 5000)))
            case Struct(cls):
                return self.struct(cls, depth + 1)
            case Array(element):
                return [self.value(element, name, depth + 1) for _ in range(self.length(element, depth))]

    def length(self, element: WireType, depth: int) -> int:
        if self.style == "long":
            leaf = not isinstance(element, Struct) or all(type(f.type) is not Array for f in fields_of(element.cls))
            return 130 if leaf and depth < 3 else 2
        return self.draw.choice((0, 1, 2, 3)) if self.style == "mixed" else 2

    def scalar(self, kind: Scalar, name: str) -> Any:
        if kind.name == "bool":
            return self.style != "mixed" or self.draw.random() < 0.5
        if kind.name == "uuid":
            return Uuid(self.draw.randbytes(16))
        if kind.name == "float64":
            return self.draw.uniform(-1e9, 1e9)
        bits = INT_BITS[kind.name]
        if name.endswith("error_code"):
            return self.draw.choice(ERROR_CODES)
        if name.endswith(("_ms", "timestamp")):
            return self.draw.randrange(min(2 ** (bits - 1), LATEST_MS))
        if kind.name.startswith("u"):
            return self.draw.randrange(2**bits)
        return self.draw.choice((self.draw.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)), 1))


Samples = Callable[[type, int], Iterator[Any]]


@pytest.fixture(scope="session")
def samples() -> Samples:
    """Messages of a class that a version can carry."""

    def make(cls: type, version: int) -> Iterator[Any]:
        for number, style in enumerate(STYLES):
            yield Maker(version, style, seed=number * 1000 + version).struct(cls)

    return make
