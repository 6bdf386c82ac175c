"""How long a client is made to wait, written into a response that is encoded already: where, the schema says."""

from __future__ import annotations

from functools import cache
from typing import Final

from kavka.model.types import FileSlice, Piece
from kavka.protocol.header import encode_response, parse_response
from kavka.protocol.registry import API
from kavka.protocol.schema import Scalar, fields_of, replace

FIELD: Final = "throttle_time_ms"
_INT32_BYTES: Final = 4
_HEAD_BYTES: Final = (8, 9)  # by header version: size, correlation id, and from the later one on no tagged fields
_ABSENT: Final = -1
_BEHIND_OTHERS: Final = -2


def with_throttle_time(api_key: int, version: int, response: list[Piece], throttle_ms: int) -> list[Piece]:
    """A framed response that tells the time; as it is where its version has no room for that."""
    at = _position(api_key, version)
    if at == _ABSENT:
        return response
    if at == _BEHIND_OTHERS:
        whole = b"".join(piece for piece in response if not isinstance(piece, FileSlice))
        correlation_id, message = parse_response(API[api_key], version, whole[_INT32_BYTES:])
        return encode_response(api_key, version, correlation_id, replace(message, **{FIELD: throttle_ms}))
    at += _HEAD_BYTES[API[api_key].response_header_version(version)]
    for number, piece in enumerate(response):
        if at < len(piece):
            assert not isinstance(piece, FileSlice)  # what comes before records is in memory
            told = bytearray(piece)
            told[at : at + _INT32_BYTES] = throttle_ms.to_bytes(_INT32_BYTES, "big")
            return [*response[:number], bytes(told), *response[number + 1 :]]
        at -= len(piece)
    raise AssertionError(f"a response of {API[api_key].name} is shorter than its schema")


@cache
def _position(api_key: int, version: int) -> int:
    """How many bytes of the body come before the field, if nothing of varying length does."""
    at = 0
    fixed = True
    for field in fields_of(API[api_key].response()):
        if version not in field.versions or field.tag is not None:
            continue
        if field.name == FIELD:
            return at if fixed else _BEHIND_OTHERS
        if isinstance(field.type, Scalar):
            at += field.type.size
        else:
            fixed = False
    return _ABSENT
