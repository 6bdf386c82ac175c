"""Writes the source of decoders: one flat function for one message at one version.

Neighbouring fields of fixed size are unpacked by one `struct` call, and the first byte of a length or of the tagged
fields' count joins the call before it. Every length is held against what is left of the data before anything is built.

A stepwise decoder does the same as a generator, which gives way after every so many items: see `compiler.decode_steps`.
"""

from __future__ import annotations

import struct
from typing import Any

from kavka.model.errors import MalformedMessage
from kavka.model.types import Uuid
from kavka.protocol.primitives import (
    STEP_ITEMS,
    Unpackers,
    bad_bytes,
    bad_length,
    read_string_length,
    skip_tags,
    skip_tags_steps,
    unpack_steps,
)
from kavka.protocol.schema import (
    FRESH,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    Scalar,
    Struct,
    Variable,
    WireType,
    fields_of,
    holds_records,
)
from kavka.wire.varint import read_uvarint


class DecoderSource:
    """The lines of one decoder, and the names they use."""

    def __init__(self, cls: type, version: int, *, flexible: bool, stepwise: bool = False) -> None:
        self.version = version
        self.flexible = flexible
        self._stepwise = stepwise
        self.names: dict[str, Any] = {
            "MalformedMessage": MalformedMessage,
            "StructError": struct.error,
            "Uuid": Uuid,
            "as_bytes": bytes.__new__,
            "bad_bytes": bad_bytes,
            "bad_length": bad_length,
            "new": object.__new__,
            "read_string_length": read_string_length,
            "read_uvarint": read_uvarint,
            "skip_tags": skip_tags,
            "skip_tags_steps": skip_tags_steps,
            "unpack_steps": unpack_steps,
        }
        self.lines = [
            "def decode(buf, pos):",
            "    end = len(buf)",
            *["    items = 0", "    yield"] * stepwise,
            "    try:",
        ]
        self._depth = 2
        self._count = 0
        self._pending: list[tuple[str, str]] = []  # struct codes and the targets they are unpacked into
        if holds_records(cls, version):
            self._line("view = memoryview(buf)")
        self._struct(cls, "o")
        self._flush()
        self._line("return o, pos")
        self.lines += [
            "    except (StructError, IndexError, UnicodeDecodeError) as error:",
            f"        raise bad_bytes({cls.__name__!r}, error) from error",
        ]

    @property
    def text(self) -> str:
        """The source."""
        return "\n".join(self.lines) + "\n"

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _step(self) -> None:
        """Count an item, and give way after so many of them."""
        if self._stepwise:
            self._line(f"items = (items + 1) % {STEP_ITEMS}")
            self._line("if not items:")
            self._line("    yield")

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        if len(pending) == 1 and pending[0][0] == "B":
            self._line(f"{pending[0][1]} = buf[pos]")
            self._line("pos += 1")
            return
        codes = "".join(code for code, _ in pending)
        unpacker = struct.Struct(f">{codes}")
        name = f"U_{codes.replace('?', 'T')}"
        self.names[name] = unpacker.unpack_from
        ids = {target: self._new("u") for code, target in pending if code == UUID.code}
        targets = [ids.get(target, target) for _, target in pending]
        self._line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {name}(buf, pos)")
        self._line(f"pos += {unpacker.size}")
        for target, local in ids.items():
            self._line(f"{target} = as_bytes(Uuid, {local})")

    def _length(self, code: str, name: str) -> str:
        """Read a length or count into a new local name: in the flexible form counted from one, null being zero."""
        length = self._new("n")
        self._pending.append(("B" if self.flexible else code, length))
        self._flush()
        if self.flexible:
            read = f"read_string_length(buf, pos - 1, {name!r})" if code == "h" else "read_uvarint(buf, pos - 1)"
            self._line(f"if {length} > 127:")
            self._line(f"    {length}, pos = {read}")
            self._line(f"{length} -= 1")
        return length

    def _checked_length(self, code: str, target: str, name: str, nullable: bool, each: int = 1) -> str:
        """Read a length, refuse it if so many bytes are not left, and open the block for when it is not null."""
        length = self._length(code, name)
        beyond = f"{length} * {each} > end - pos" if each > 1 else f"{length} > end - pos"
        refusal = f"    raise bad_length({name!r}, {length}, end - pos)"
        if nullable:
            self._line(f"if {length} < 0:")
            self._line(f"    {target} = None")
            self._line(f"elif {beyond}:")
            self._line(refusal)
            self._line("else:")
            self._depth += 1
        else:
            self._line(f"if {length} < 0 or {beyond}:")
            self._line(refusal)
        return length

    def _struct(self, cls: type, owner: str) -> None:
        name = f"C_{cls.__name__}"
        assert self.names.setdefault(name, cls) is cls
        self._line(f"{owner} = new({name})")
        tagged = []
        for field in fields_of(cls):
            target = f"{owner}.{field.name}"
            if self.version not in field.versions:
                self._default(target, field)
            elif field.tag is not None:
                self._default(target, field)
                tagged.append(field)
            else:
                self._value(target, field.type, field.name, self.version in field.nullable)
        if self.flexible:
            self._tags(tagged, owner)

    def _default(self, target: str, field: Field) -> None:
        value = field.implied
        if value is FRESH and isinstance(field.type, Struct):
            name, owner = f"C_{field.type.cls.__name__}", self._new("d")
            assert self.names.setdefault(name, field.type.cls) is field.type.cls
            self._line(f"{target} = {owner} = new({name})")
            for inner in fields_of(field.type.cls):
                self._default(f"{owner}.{inner.name}", inner)
        elif value is FRESH:
            self._line(f"{target} = []")
        elif field.type is UUID:
            self._line(f"{target} = Uuid.ZERO")
        else:
            self._line(f"{target} = {value!r}")

    def _value(self, target: str, kind: WireType, name: str, nullable: bool) -> None:
        if isinstance(kind, Scalar):
            self._pending.append((kind.code, target))
        elif isinstance(kind, Array):
            self._array(target, kind, name, nullable)
        elif isinstance(kind, Struct):
            self._nested(target, kind, nullable)
        else:
            self._sized(target, kind, name, nullable)

    def _nested(self, target: str, kind: Struct, nullable: bool, null: int = -1) -> None:
        owner = self._new("o")
        if not nullable:
            self._struct(kind.cls, owner)
            self._line(f"{target} = {owner}")
            return
        marker = self._new("n")
        self._pending.append(("b", marker))
        self._flush()
        self._line(f"if {marker} <= {null}:")
        self._line(f"    {target} = None")
        self._line("else:")
        self._depth += 1
        self._struct(kind.cls, owner)
        self._flush()
        self._line(f"{target} = {owner}")
        self._depth -= 1

    def _sized(self, target: str, kind: Variable, name: str, nullable: bool) -> None:
        depth = self._depth
        length = self._checked_length("h" if kind is STRING else "i", target, name, nullable)
        piece = f"[pos:(pos := pos + {length})]"
        if kind is STRING:
            self._line(f'{target} = str(buf{piece}, "utf-8")')
        elif kind is RECORDS:
            self._line(f"{target} = view{piece}")
        else:
            self._line(f"{target} = bytes(buf{piece})")
        self._depth = depth

    def _array(self, target: str, kind: Array, name: str, nullable: bool) -> None:
        depth, element = self._depth, kind.element
        each = least_size(element, self.version, self.flexible)
        count = self._checked_length("i", target, name, nullable, each)
        if element is UUID and not self._stepwise:
            self._line(f"{target} = [as_bytes(Uuid, buf[p : p + 16]) for p in range(pos, pos + 16 * {count}, 16)]")
            self._line(f"pos += 16 * {count}")
        elif isinstance(element, Scalar) and element is not UUID:
            table = f"A_{element.name}"
            self.names[table] = _UNPACKERS.setdefault(element.code, Unpackers(element.code))
            whole = f"[*{table}[{count}](buf, pos)]"
            if self._stepwise:
                whole = f"yield from unpack_steps({table}, {element.size}, buf, pos, {count})"
            self._line(f"{target} = {whole}")
            self._line(f"pos += {element.size} * {count}")
        else:
            items, item = self._new("a"), self._new("o")
            self._line(f"{target} = {items} = []")
            self._line(f"for _ in range({count}):")
            self._depth += 1
            self._step()
            if isinstance(element, Struct):
                self._struct(element.cls, item)
            else:
                self._value(item, element, name, nullable=False)
            self._flush()
            self._line(f"{items}.append({item})")
        self._depth = depth

    def _tags(self, tagged: list[Field], owner: str) -> None:
        count = self._new("t")
        self._pending.append(("B", count))
        self._flush()
        self._line(f"if {count}:")
        self._depth += 1
        if not tagged:
            skip = "yield from skip_tags_steps" if self._stepwise else "skip_tags"
            self._line(f"pos = {skip}(buf, pos - 1, end)")
            self._depth -= 1
            return
        tag, size, stop = self._new("tag"), self._new("size"), self._new("stop")
        self._line(f"{count}, pos = read_uvarint(buf, pos - 1)")
        self._line(f"for _ in range({count}):")
        self._depth += 1
        self._step()
        self._line(f"{tag}, pos = read_uvarint(buf, pos)")
        self._line(f"{size}, pos = read_uvarint(buf, pos)")
        self._line(f"{stop} = pos + {size}")
        self._line(f"if {stop} > end:")
        self._line(f'    raise bad_length("a tagged field", {size}, end - pos)')
        for number, field in enumerate(tagged):
            self._line(f"{'elif' if number else 'if'} {tag} == {field.tag}:")
            self._depth += 1
            target, nullable = f"{owner}.{field.name}", self.version in field.nullable
            if isinstance(field.type, Struct):
                self._nested(target, field.type, nullable, null=0)  # a varint says whether a tagged struct is there
            else:
                self._value(target, field.type, field.name, nullable)
            self._flush()
            self._depth -= 1
        self._line("else:")
        self._line(f"    pos = {stop}")
        self._line(f"if pos != {stop}:")
        self._line('    raise MalformedMessage("a tagged field is not as long as it says")')
        self._depth -= 2


def least_size(kind: WireType, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of the type takes."""
    if isinstance(kind, Scalar):
        return kind.size
    if isinstance(kind, Array):
        return 1 if flexible else 4
    if isinstance(kind, Variable):
        return 1 if flexible else 2 if kind is STRING else 4
    present = (field for field in fields_of(kind.cls) if version in field.versions and field.tag is None)
    sizes = (
        1 if isinstance(f.type, Struct) and version in f.nullable else least_size(f.type, version, flexible)
        for f in present
    )
    return sum(sizes) + (1 if flexible else 0)


_UNPACKERS: dict[str, Unpackers] = {}
