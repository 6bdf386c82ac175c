"""Writes the source of encoders: one flat function for one message at one version.

Neighbouring fields of fixed size are packed by one `struct` call, and the length of a string or array joins the call
before it. The function hands its parts to a callable, so that parts which are not in memory (slices of files) pass
through untouched. A stepwise encoder is a generator that gives way after every so many items.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kavka.model.types import Uuid
from kavka.protocol.primitives import STEP_ITEMS, STRING_LENGTHS, VARINTS, Packers, not_at_version
from kavka.protocol.schema import BYTES, FRESH, RECORDS, STRING, UUID, Array, Field, Scalar, Struct, WireType, fields_of

_NO_TAGS: Final = ("x", "")  # a pad byte, which `struct` writes as the zero that counts no tagged fields


class EncoderSource:
    """The lines of one encoder, and the names they use."""

    def __init__(self, cls: type, version: int, *, flexible: bool, stepwise: bool = False) -> None:
        self.message = cls.__name__
        self.version = version
        self.flexible = flexible
        self._stepwise = stepwise
        self.names: dict[str, Any] = {
            "V": VARINTS,
            "VS": STRING_LENGTHS,
            "ZERO": Uuid.ZERO,
            "not_at_version": not_at_version,
        }
        self.lines = ["def encode(o, w):", *["    items = 0", "    yield"] * stepwise]
        self._depth = 1
        self._count = 0
        self._pending: list[tuple[str, str]] = []  # struct codes and the expressions to pack, not written yet
        self._struct(cls, "o")
        self._flush()
        self._line("return None")

    @property
    def text(self) -> str:
        """The source."""
        return "\n".join(self.lines) + "\n"

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _pack(self, items: list[tuple[str, str]]) -> str:
        """The expression that packs fixed-size items."""
        codes = "".join(code for code, _ in items)
        name = f"P_{codes.replace('?', 'T')}"
        self.names[name] = struct.Struct(f">{codes}").pack
        return f"{name}({', '.join(expression for _, expression in items if expression)})"

    def _flush(self) -> None:
        if self._pending:
            alone = self._pending == [_NO_TAGS]
            self._line("w(V[0])" if alone else f"w({self._pack(self._pending)})")
            self._pending = []

    def _length(self, name: str, code: str) -> None:
        """Write a length that is in a local name; a flexible one is counted from one and short if it can be."""
        table = "VS" if code == "h" else "V"
        if not self.flexible:
            self._pending.append((code, name))
            self._flush()
        elif self._pending:
            short = self._pack([*self._pending, ("B", name)])
            self._line(f"w({short} if {name} < 128 else {self._pack(self._pending)} + {table}[{name}])")
            self._pending = []
        else:
            self._line(f"w({table}[{name}])")

    def _struct(self, cls: type, owner: str) -> None:
        tagged = []
        for field in fields_of(cls):
            value = f"{owner}.{field.name}"
            if self.version not in field.versions:
                if not field.ignorable:
                    self._refuse(self._differs(value, field), field.name)
            elif field.tag is not None:
                tagged.append(field)
            else:
                self._field(value, field)
        if self.flexible:
            self._tags(sorted(tagged, key=lambda field: field.tag or 0), owner)

    def _refuse(self, condition: str, name: str) -> None:
        self._line(f"if {condition}:")
        self._line(f"    raise not_at_version({self.message!r}, {name!r}, {self.version})")

    def _field(self, value: str, field: Field) -> None:
        nullable = self.version in field.nullable
        if not nullable and field.nullable:
            self._refuse(f"{value} is None", field.name)
        self._value(value, field.type, nullable)

    def _value(self, value: str, kind: WireType, nullable: bool) -> None:
        if isinstance(kind, Scalar):
            self._pending.append((kind.code, value))
        elif isinstance(kind, Array):
            self._array(value, kind, nullable)
        elif isinstance(kind, Struct):
            self._nested(value, kind, nullable)
        elif kind is STRING:
            self._string(value, nullable)
        else:
            self._blob(value, kind, nullable)

    def _nested(self, value: str, kind: Struct, nullable: bool, null: int = -1) -> None:
        owner = self._new("o")
        if not nullable:
            self._line(f"{owner} = {value}")
            self._struct(kind.cls, owner)
            return
        self._pending.append(("b", f"{null} if {value} is None else 1"))
        self._flush()
        self._line(f"{owner} = {value}")
        self._line(f"if {owner} is not None:")
        self._depth += 1
        self._struct(kind.cls, owner)
        self._flush()
        self._depth -= 1

    def _string(self, value: str, nullable: bool) -> None:
        local, length = self._new("b"), self._new("n")
        extra, null = (" + 1", 0) if self.flexible else ("", -1)
        if nullable:
            self._line(f"if {value} is None:")
            self._line(f"    {local}, {length} = b'', {null}")
            self._line("else:")
            self._line(f"    {local} = {value}.encode()")
            self._line(f"    {length} = len({local}){extra}")
        else:
            self._line(f"{local} = {value}.encode()")
            self._line(f"{length} = len({local}){extra}")
        self._length(length, "h")
        self._line(f"w({local})")

    def _blob(self, value: str, kind: WireType, nullable: bool) -> None:
        assert kind in (BYTES, RECORDS)
        local, length = self._new("b"), self._new("n")
        self._line(f"{local} = {value}")
        self._count_of(local, length, nullable)
        self._length(length, "i")
        self._line(f"w({local} or b'')" if nullable else f"w({local})")

    def _count_of(self, local: str, length: str, nullable: bool) -> None:
        """Put the wire form of a length or count into a local name."""
        extra, null = (" + 1", 0) if self.flexible else ("", -1)
        count = f"len({local}){extra}"
        self._line(f"{length} = {null} if {local} is None else {count}" if nullable else f"{length} = {count}")

    def _array(self, value: str, kind: Array, nullable: bool) -> None:
        local, length = self._new("a"), self._new("n")
        self._line(f"{local} = {value}")
        self._count_of(local, length, nullable)
        self._length(length, "i")
        element = kind.element
        if element is UUID:
            self._line(f"w(b''.join({local}))" if not nullable else f"w(b''.join({local} or ()))")
        elif isinstance(element, Scalar):
            table = f"A_{element.name}"
            self.names[table] = _PACKERS.setdefault(element.code, Packers(element.code))
            self._line(f"if {local}:")
            self._line(f"    w({table}[len({local})](*{local}))")
        else:
            item = self._new("o")
            self._line(f"for {item} in {local} or ():" if nullable else f"for {item} in {local}:")
            self._depth += 1
            before = len(self.lines)
            if self._stepwise:
                self._line(f"items = (items + 1) % {STEP_ITEMS}")
                self._line("if not items:")
                self._line("    yield")
            if isinstance(element, Struct):
                self._struct(element.cls, item)
            else:
                self._value(item, element, nullable=False)
            self._flush()
            if len(self.lines) == before:
                self._line("pass")
            self._depth -= 1

    def _tags(self, tagged: list[Field], owner: str) -> None:
        if not tagged:
            self._pending.append(_NO_TAGS)
            return
        conditions = [self._differs(f"{owner}.{field.name}", field) for field in tagged]
        plain = self._pack([*self._pending, _NO_TAGS]) if self._pending else "V[0]"
        self._line(f"if not ({' or '.join(conditions)}):")
        self._line(f"    w({plain})")
        self._line("else:")
        self._depth += 1
        self._flush()
        parts, count = self._new("parts"), self._new("count")
        self._line(f"{parts}, {count} = [], 0")
        for field, condition in zip(tagged, conditions, strict=True):
            self._tag(field, f"{owner}.{field.name}", condition, parts, count)
        self._line(f"w(V[{count}])")
        self._line(f"w(b''.join({parts}))")
        self._depth -= 1

    def _tag(self, field: Field, value: str, condition: str, parts: str, count: str) -> None:
        """Write one tagged field aside, because its size stands before it."""
        inner, body, outer = self._new("inner"), self._new("body"), self._new("w")
        self._line(f"if {condition}:")
        self._depth += 1
        self._line(f"{inner}, {outer} = [], w")
        self._line(f"w = {inner}.append")
        if isinstance(field.type, Struct) and self.version in field.nullable:
            self._nested(value, field.type, nullable=True, null=0)  # a varint says whether a tagged struct is there
        else:
            self._field(value, field)
        self._flush()
        self._line(f"w = {outer}")
        self._line(f"{body} = b''.join({inner})")
        self._line(f"{parts} += (V[{field.tag}], V[len({body})], {body})")
        self._line(f"{count} += 1")
        self._depth -= 1

    def _differs(self, value: str, field: Field) -> str:
        """The condition under which a value is not the field's default."""
        default = field.implied
        if default is None:
            return f"{value} is not None"
        if default is FRESH and isinstance(field.type, Struct):
            inner = [self._differs(f"{value}.{each.name}", each) for each in fields_of(field.type.cls)]
            return f"({' or '.join([f'{value} is None', *inner] if field.nullable else inner)})"
        if default is FRESH:
            return f"({value} is None or {value})" if field.nullable else value
        if default is False:
            return value
        if default is True:
            return f"not {value}"
        if field.type is UUID:
            return f"{value} != ZERO"
        return f"{value} != {default!r}"


_PACKERS: dict[str, Packers] = {}
