"""How a record says which schema it has: in front of its bytes, or in a header.

In front stand a zero byte and the schema's id in four bytes. In the header `__key_schema_id` or `__value_schema_id`
stand a byte of one and the schema's GUID; the bytes of the record then are nothing but the message. Records of Protobuf
have, right after either, which message of the file they are: how many indexes and the indexes, in zigzag varints, where
the one index 0 is written as a single zero.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from kavka.records.batch import Header

Part = Literal["key", "value"]

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_BY_ID: Final = 0
_BY_GUID: Final = 1
_ID_BYTES: Final = 5
_GUID_BYTES: Final = 17
_MAX_INDEXES: Final = 100  # messages within messages
_ID: Final = struct.Struct(">BI")


class Frame(NamedTuple):
    """A record taken apart: its schema's id or GUID, and where what follows begins."""

    schema: int | str
    head: bytes
    """What the schema is named in."""
    at: int
    """Where the name ends in it."""
    message: bytes | None
    """The message, if it stands apart from the head."""

    def payload(self) -> bytes:
        """The message of a format that needs no indexes."""
        return self.head[self.at :] if self.message is None else self.message

    def indexed(self) -> tuple[tuple[int, ...], bytes]:
        """Which message of a Protobuf file it is, and its bytes; raises ValueError."""
        count, at = _varint(self.head, self.at)
        if not 0 <= count <= _MAX_INDEXES:
            raise ValueError(f"it says to have {count} message indexes")
        indexes = [0] if count == 0 else []
        for _ in range(count):
            index, at = _varint(self.head, at)
            indexes.append(index)
        return tuple(indexes), self.head[at:] if self.message is None else self.message


def header_of(part: Part) -> str:
    """The name of the header that names a schema."""
    return KEY_HEADER if part == "key" else VALUE_HEADER


def is_framed(part: Part, data: bytes | None, headers: Iterable[Header]) -> bool:
    """Whether a key or value seems to name a schema."""
    if data is None:
        return False
    wanted = header_of(part)
    return (data[:1] == b"\x00" and len(data) >= _ID_BYTES) or any(name == wanted for name, _ in headers)


def unframed(part: Part, data: bytes, headers: Iterable[Header]) -> Frame:
    """A key or value taken apart; raises ValueError if it names no schema."""
    wanted = header_of(part)
    for name, value in headers:
        if name == wanted and value is not None:
            schema, at = _named(value)
            return Frame(schema, value, at, data)
    schema, at = _named(data)
    return Frame(schema, data, at, None)


def _named(data: bytes) -> tuple[int | str, int]:
    magic = data[0] if data else -1
    if magic == _BY_ID and len(data) >= _ID_BYTES:
        return _ID.unpack_from(data)[1], _ID_BYTES
    if magic == _BY_GUID and len(data) >= _GUID_BYTES:
        return str(uuid.UUID(bytes=bytes(data[1:_GUID_BYTES]))), _GUID_BYTES
    raise ValueError("it does not begin with the id of a schema")


def framed_by_id(id_: int, indexes: Sequence[int] | None = None) -> bytes:
    """What stands in front of a message."""
    return _ID.pack(_BY_ID, id_) + _written(indexes)


def framed_by_guid(guid: str, indexes: Sequence[int] | None = None) -> bytes:
    """What stands in the header of a message."""
    return bytes([_BY_GUID]) + uuid.UUID(guid).bytes + _written(indexes)


def _written(indexes: Sequence[int] | None) -> bytes:
    if indexes is None:
        return b""
    if list(indexes) == [0]:
        return b"\x00"
    written = bytearray()
    for number in (len(indexes), *indexes):
        left = number << 1  # zigzag; none is negative
        while left > 0x7F:
            written.append(left & 0x7F | 0x80)
            left >>= 7
        written.append(left)
    return bytes(written)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for at in range(at, min(at + 5, len(data))):  # noqa: B020 (goes on from where it is)
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
    raise ValueError("its message indexes are cut short")
