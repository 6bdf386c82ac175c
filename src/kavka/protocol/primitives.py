"""What compiled codecs call: tables of packers and varints, and the errors of bytes and values that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Final

from kavka.model.errors import MalformedMessage, UnsupportedVersion
from kavka.wire.varint import read_uvarint, write_uvarint

Buffer = bytes | bytearray | memoryview

_KEPT_COUNTS: Final = 64
_KEPT_VARINTS: Final = 1 << 14
_MAX_STRING: Final = 0x7FFF

STEP_ITEMS: Final = 128
"""How many items of arrays, or tagged fields, are a step of a codec that works in steps."""
_STEP_NUMBERS: Final = 256
"""How many plain numbers are: they take less time, and less memory."""


class Varints(dict[int, bytes]):
    """The bytes of each unsigned varint, made when first asked for."""

    def __missing__(self, value: int) -> bytes:
        out = bytearray()
        write_uvarint(out, value)
        encoded = bytes(out)
        if value < _KEPT_VARINTS:
            self[value] = encoded
        return encoded


class StringLengths(Varints):
    """The same for the lengths of strings, counted from one; longer ones than Kafka reads are refused."""

    def __missing__(self, value: int) -> bytes:
        if value > _MAX_STRING + 1:
            raise ValueError(f"a string of {value - 1} bytes is too long: {_MAX_STRING} is the limit")
        return super().__missing__(value)


class Packers(dict[int, Callable[..., bytes]]):
    """Functions that pack so many values of one `struct` code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, count: int) -> Callable[..., bytes]:
        pack = Struct(f">{count}{self.code}").pack
        if count < _KEPT_COUNTS:
            self[count] = pack
        return pack


class Unpackers(dict[int, Callable[[Buffer, int], tuple[Any, ...]]]):
    """Functions that unpack so many values of one `struct` code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, count: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
        unpack = Struct(f">{count}{self.code}").unpack_from
        if count < _KEPT_COUNTS:
            self[count] = unpack
        return unpack


VARINTS: Final = Varints()
STRING_LENGTHS: Final = StringLengths()


def read_string_length(buf: Buffer, pos: int, name: str) -> tuple[int, int]:
    """The compact length of a string, when it took more than a byte."""
    length, pos = read_uvarint(buf, pos)
    if length > _MAX_STRING + 1:
        raise MalformedMessage(f"{name} has a length of {length - 1}, and a string has at most {_MAX_STRING}")
    return length, pos


def skip_tags(buf: Buffer, pos: int, end: int) -> int:
    """The position after tagged fields none of which is known."""
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise MalformedMessage("a tagged field goes beyond the end of the data")
    return pos


def skip_tags_steps(buf: Buffer, pos: int, end: int) -> Generator[None, None, int]:
    """The same, in steps."""
    count, pos = read_uvarint(buf, pos)
    for number in range(1, count + 1):
        if number % STEP_ITEMS == 0:
            yield
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise MalformedMessage("a tagged field goes beyond the end of the data")
    return pos


def unpack_steps(table: Unpackers, size: int, buf: Buffer, pos: int, count: int) -> Generator[None, None, list[Any]]:
    """So many numbers of one size, in steps."""
    values: list[Any] = []
    while count > _STEP_NUMBERS:
        values += table[_STEP_NUMBERS](buf, pos)
        pos += size * _STEP_NUMBERS
        count -= _STEP_NUMBERS
        yield
    values += table[count](buf, pos)
    return values


def bad_length(name: str, length: int, rest: int) -> MalformedMessage:
    """The error for a length or count that cannot be true."""
    if length < 0:
        return MalformedMessage(f"{name} is null, and may not be")
    return MalformedMessage(f"{name} has a length of {length} where {rest} bytes are left")


def bad_bytes(message: str, error: Exception) -> MalformedMessage:
    """The error for bytes that end too early or are not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        return MalformedMessage(f"{message}: a string is not UTF-8")
    return MalformedMessage(f"{message}: the data ends too early")


def not_at_version(message: str, name: str, version: int) -> UnsupportedVersion:
    """The error for a value that the version cannot carry."""
    return UnsupportedVersion(f"{message} version {version} cannot carry the given {name}")
