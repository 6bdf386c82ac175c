"""What a protobuf file says: messages, fields, enums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SCALARS: Final = frozenset(
    {
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
        "sfixed32", "sfixed64", "bool", "string", "bytes",
    }
)  # fmt: skip

Options = dict[str, str]
"""Names as they are written, values as they are written."""


@dataclass(slots=True)
class Field:
    """A field of a message; that of a map has the type of its values."""

    name: str
    number: int
    type: str
    """A scalar, or the full name of a message or an enum with a dot before it."""
    label: str = ""
    """optional, required, repeated; nothing where it was not said."""
    oneof: str = ""
    map_key: str = ""
    options: Options = field(default_factory=dict)


@dataclass(slots=True)
class Enum:
    """An enum."""

    name: str
    values: list[tuple[str, int]] = field(default_factory=list)
    options: Options = field(default_factory=dict)
    reserved: list[str] = field(default_factory=list)
    value_options: dict[str, Options] = field(default_factory=dict)
    """Those of values that have some."""


@dataclass(slots=True)
class Message:
    """A message and what is defined within it."""

    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    options: Options = field(default_factory=dict)
    reserved: list[str] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)
    oneof_options: dict[str, Options] = field(default_factory=dict)
    """Those of oneofs that have some."""
    verbatim: list[str] = field(default_factory=list)
    """Extensions of other messages, as they were written."""


@dataclass(slots=True)
class File:
    """A file."""

    syntax: str = "proto2"
    package: str = ""
    imports: list[tuple[str, str]] = field(default_factory=list)
    """`public`, `weak` or nothing, and the name."""
    options: Options = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    verbatim: list[str] = field(default_factory=list)
    """Services and extensions, which no record has, as they were written."""
