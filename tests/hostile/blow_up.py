"""Requests blown up to their limit: every list, string and tag of every API, of one thing or of many."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Iterator
from itertools import count, cycle
from typing import Any, NamedTuple

from kavka.model.errors import UnsupportedVersion
from kavka.model.types import Uuid
from kavka.protocol.compiler import encode
from kavka.protocol.header import encode_request
from kavka.protocol.registry import Api
from kavka.protocol.schema import Array, Field, Scalar, Struct, WireType, build_default, fields_of

KNOWN = "orders"
"""A topic that is there; it is the name of everything that is asked for again and again."""
TEXTS = ("x", "\\pL", "\0", "\U0001f4a3", '{"a":[', "%s'\"\\\n", "(a*)*")
"""What strings are made of at their longest: letters, patterns, what is no name, four bytes a letter, a format."""
LONGEST = 32_000
SOME = 1_000
"""How many items are made first, to see how large each is."""


class Blown(NamedTuple):
    """One blown-up request."""

    api: Api
    version: int
    what: str
    frame: bytes

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} {self.what}"


class BlowUp:
    """Makes requests of one API at one version of about a size."""

    def __init__(self, api: Api, version: int, size: int, topic_id: Uuid, items: int = 1 << 31) -> None:
        """`items` is how many all lists of a request may have together: one of so many is made where more would fit."""
        self._api = api
        self._version = version
        self._size = size
        self._most = items
        self._topic_id = topic_id
        self._distinct = False
        self._names = count()
        self._texts = cycle(TEXTS)

    def requests(self) -> Iterator[Blown]:
        """Every list with one thing over and over and with different ones, every string at its longest, and tags."""
        for distinct in (False, True):
            self._distinct = distinct
            for path in self._paths(self._api.request()):
                with contextlib.suppress(UnsupportedVersion):
                    yield from self._blown(path)
        if self._version in self._flexible():
            yield self._tags()

    def one(self, rng: random.Random) -> Blown | None:
        """One of those, by chance."""
        self._distinct = rng.random() < 0.5
        paths = list(self._paths(self._api.request()))
        if self._version in self._flexible() and rng.random() < 0.2:
            return self._tags()
        try:
            return rng.choice(list(self._blown(rng.choice(paths)))) if paths else None
        except UnsupportedVersion:
            return None

    def _flexible(self) -> range:
        first = self._api.flexible_from
        return range(first, self._api.max_version + 1) if first is not None else range(0)

    def _paths(self, cls: type, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """The fields that can be blown up, by the way to them."""
        for field in self._fields(cls):
            path = (*above, field.name)
            if isinstance(field.type, Array):
                yield path
                if isinstance(field.type.element, Struct):
                    yield from self._paths(field.type.element.cls, path)
            elif isinstance(field.type, Struct):
                yield from self._paths(field.type.cls, path)
            elif field.type.name == "string" and not above:
                yield path

    def _fields(self, cls: type) -> Iterator[Field]:
        return (field for field in fields_of(cls) if self._version in field.versions)

    def _blown(self, path: tuple[str, ...]) -> Iterator[Blown]:
        """As large as may be, and, where that has too many items to be served, with as many as may be."""
        what = f"{'.'.join(path)} {'distinct' if self._distinct else 'same'}"
        few = self._struct(self._api.request(), path, SOME)
        frame, counted = self._encoded(few), count_items(few)
        each_bytes = (len(frame) - len(self._encoded(self._struct(self._api.request(), path, 1)))) / (SOME - 1)
        if each_bytes < 1:  # a string, which has its length
            for text in TEXTS:
                frame = self._encoded(self._struct(self._api.request(), path, SOME))
                yield Blown(self._api, self._version, f"{what} {text!r}", frame)
            return
        most = int(self._size * 0.9 / each_bytes)
        frame = self._encoded(self._struct(self._api.request(), path, most))
        if len(frame) > self._size:  # names grow with their numbers
            most = int(most * 0.9 * self._size / len(frame))
            frame = self._encoded(self._struct(self._api.request(), path, most))
        yield Blown(self._api, self._version, what, frame)
        allowed = int(self._most * 0.95 * SOME / counted)
        if allowed < most:
            fewer = self._struct(self._api.request(), path, allowed)
            yield Blown(self._api, self._version, f"{what} ({allowed} items)", self._encoded(fewer))

    def _encoded(self, body: Any) -> bytes:
        return encode_request(self._version, 1, "hostile", body)

    def _struct(self, cls: type, path: tuple[str, ...], items: int) -> Any:
        made: Any = build_default(cls)
        for field in self._fields(cls):
            below = path[1:] if path and path[0] == field.name else ()
            wanted = bool(path) and path[0] == field.name
            setattr(made, field.name, self._value(field.type, field.name, wanted, below, items))
        return made

    def _value(self, kind: WireType, name: str, wanted: bool, below: tuple[str, ...], items: int) -> Any:
        match kind:
            case Struct(cls):
                return self._struct(cls, below, items)
            case Array(element):
                many = items if wanted and not below else 1
                if many == 1 or self._distinct:
                    return [self._value(element, name, wanted and bool(below), below, items) for _ in range(many)]
                return [self._value(element, name, False, (), items)] * many
            case Scalar():
                return self._scalar(kind)
        if kind.name == "string":
            if wanted:
                text = next(self._texts)
                return text * (LONGEST // len(text.encode()))
            return f"t{next(self._names)}" if self._distinct else KNOWN
        return b""

    def _scalar(self, kind: Scalar) -> Any:
        if kind.name == "bool":
            return False
        if kind.name == "uuid":
            return Uuid(struct.pack(">QQ", 1, next(self._names))) if self._distinct else self._topic_id
        if kind.name == "float64":
            return 0.0
        return next(self._names) % 100_000 if self._distinct and kind.name == "int32" else 0

    def _tags(self) -> Blown:
        body = encode(self._struct(self._api.request(), (), 1), self._version)
        tags = (self._size - len(body)) // 4
        head = encode_request(self._version, 1, "hostile", self._struct(self._api.request(), (), 1))[4 : -len(body)]
        many = bytes([tags & 0x7F | 0x80, tags >> 7 & 0x7F | 0x80, tags >> 14 & 0x7F | 0x80, tags >> 21])
        content = head + body[:-1] + many + bytes([0xFF, 0x7F, 1, 0]) * tags
        return Blown(self._api, self._version, "tags", struct.pack(">i", len(content)) + content)


def count_items(message: Any) -> int:
    """How many items all lists of a message have together."""
    found = 0
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if isinstance(field.type, Array) and value:
            found += len(value)
            if isinstance(field.type.element, Struct):
                found += sum(map(count_items, value))
        elif isinstance(field.type, Struct) and value is not None:
            found += count_items(value)
    return found
