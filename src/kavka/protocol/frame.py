"""The frame of a record that a log remembers (KIP-631): which record it is, and at which version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kavka.model.errors import MalformedMessage
from kavka.protocol.compiler import decode_from, encode
from kavka.protocol.primitives import VARINTS, Buffer
from kavka.protocol.schema import declared
from kavka.wire.varint import read_uvarint

_RECORD_FRAME_VERSION: Final = 1


def encode_frame_record(message: object, version: int) -> bytes:
    """A record's value: frame version, key and version of the record, and the record."""
    key = declared(type(message)).key
    return VARINTS[_RECORD_FRAME_VERSION] + VARINTS[key] + VARINTS[version] + encode(message, version)


def decode_frame_record(lookup: Callable[[int], type[Any]], data: Buffer) -> Any:
    """The record in a value; the lookup gives the class of a key."""
    if len(data) > 2 and data[0] == _RECORD_FRAME_VERSION and data[1] < 128 and data[2] < 128:
        key, version, pos = data[1], data[2], 3
    else:
        key, version, pos = _read_frame(data)
    cls = lookup(key)
    message, pos = decode_from(cls, data, version, pos)
    if pos != len(data):
        raise MalformedMessage(f"{cls.__name__} leaves {len(data) - pos} bytes over")
    return message


def _read_frame(data: Buffer) -> tuple[int, int, int]:
    frame_version, pos = read_uvarint(data, 0)
    if frame_version != _RECORD_FRAME_VERSION:
        raise MalformedMessage(f"a record has the frame version {frame_version}, not {_RECORD_FRAME_VERSION}")
    key, pos = read_uvarint(data, pos)
    version, pos = read_uvarint(data, pos)
    return key, version, pos
