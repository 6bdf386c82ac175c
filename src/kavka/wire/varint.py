"""Variable-length integers: seven bits to a byte, low bits first; the signed ones zigzag.

Kafka's compact lengths and tags are unsigned 32-bit ones; the fields of a record are signed 32- or 64-bit ones.
"""

from __future__ import annotations

from typing import Final

from kavka.model.errors import MalformedMessage

Buffer = bytes | bytearray | memoryview

_UINT32_MAX: Final = 0xFFFFFFFF
_UINT64_MAX: Final = 0xFFFFFFFFFFFFFFFF


def read_uvarint(buf: Buffer, pos: int, end: int = -1) -> tuple[int, int]:
    """An unsigned 32-bit integer and the position after it."""
    return _read(buf, pos, end, _UINT32_MAX, 28)


def read_uvarlong(buf: Buffer, pos: int, end: int = -1) -> tuple[int, int]:
    """An unsigned 64-bit integer and the position after it."""
    return _read(buf, pos, end, _UINT64_MAX, 63)


def read_varint(buf: Buffer, pos: int, end: int = -1) -> tuple[int, int]:
    """A signed 32-bit integer and the position after it."""
    value, pos = _read(buf, pos, end, _UINT32_MAX, 28)
    return (value >> 1) ^ -(value & 1), pos


def read_varlong(buf: Buffer, pos: int, end: int = -1) -> tuple[int, int]:
    """A signed 64-bit integer and the position after it."""
    value, pos = _read(buf, pos, end, _UINT64_MAX, 63)
    return (value >> 1) ^ -(value & 1), pos


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned integer of at most 32 bits."""
    _write(out, value, _UINT32_MAX)


def write_uvarlong(out: bytearray, value: int) -> None:
    """Append an unsigned integer of at most 64 bits."""
    _write(out, value, _UINT64_MAX)


def write_varint(out: bytearray, value: int) -> None:
    """Append a signed 32-bit integer."""
    _write(out, value << 1 if value >= 0 else ~(value << 1), _UINT32_MAX)


def write_varlong(out: bytearray, value: int) -> None:
    """Append a signed 64-bit integer."""
    _write(out, value << 1 if value >= 0 else ~(value << 1), _UINT64_MAX)


def size_of_uvarint(value: int) -> int:
    """How many bytes an unsigned integer takes."""
    return (value.bit_length() + 6) // 7 or 1


def size_of_varint(value: int) -> int:
    """How many bytes a signed integer takes."""
    return size_of_uvarint(value << 1 if value >= 0 else ~(value << 1))


def _read(buf: Buffer, pos: int, end: int, limit: int, last_shift: int) -> tuple[int, int]:
    if end < 0:
        end = len(buf)
    value = shift = 0
    while True:
        if pos >= end:
            raise MalformedMessage("a variable-length integer goes beyond the end of the data")
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        if shift == last_shift:
            raise MalformedMessage("a variable-length integer has no last byte")
        shift += 7
    if value > limit:
        raise MalformedMessage("a variable-length integer is too large for its type")
    return value, pos


def _write(out: bytearray, value: int, limit: int) -> None:
    if not 0 <= value <= limit:
        raise ValueError(f"{value} does not fit a variable-length integer of {limit.bit_length()} bits")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
