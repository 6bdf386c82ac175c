"""Requests and responses as they travel: size, header and body."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple

from kavka.model.errors import MalformedMessage
from kavka.model.types import Piece
from kavka.protocol.compiler import carries_records, decode, encode, encode_pieces, encode_steps
from kavka.protocol.primitives import Buffer, skip_tags
from kavka.protocol.registry import Api, api
from kavka.protocol.schema import declared

_REQUEST: Final = Struct(">hhih")  # key, version, correlation id, length of the client id
_FRAMED_REQUEST: Final = Struct(">ihhih")
_RESPONSE: Final = Struct(">i")
_RESPONSE_HEADS: Final = (Struct(">ii"), Struct(">iix"))  # by header version: size, correlation id, no tagged fields


class RequestHeader(NamedTuple):
    """What stands before each request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


def parse_request_header(buf: Buffer, pos: int = 0) -> tuple[RequestHeader, int]:
    """The header in the data at a position, and the position of the body; a null client id becomes an empty one."""
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(buf, pos)
        pos += _REQUEST.size
        client_id = ""
        if length > 0:
            client_id = str(buf[pos : pos + length], "utf-8")
            pos += length
        if pos > len(buf):
            raise MalformedMessage("the client id goes beyond the end of the request")
        if api(key).request_header_version(version) == 2:
            pos = skip_tags(buf, pos, len(buf)) if buf[pos] else pos + 1
    except (struct_error, IndexError):
        raise MalformedMessage("the request ends within its header") from None
    except UnicodeDecodeError:
        raise MalformedMessage("the client id is not UTF-8") from None
    return RequestHeader(key, version, correlation_id, client_id), pos


def encode_request(version: int, correlation_id: int, client_id: str | None, body: object) -> bytes:
    """A whole request in its frame; the body's class says which API it is."""
    return _framed(version, correlation_id, client_id, body, [encode(body, version)])


def encode_request_steps(
    version: int, correlation_id: int, client_id: str | None, body: object
) -> Generator[None, None, bytes]:
    """The same, in steps."""
    content = yield from encode_steps(body, version)
    return _framed(version, correlation_id, client_id, body, [bytes(piece) for piece in content])  # type: ignore[arg-type]


def _framed(version: int, correlation_id: int, client_id: str | None, body: object, content: Sequence[bytes]) -> bytes:
    key = declared(type(body)).key
    name = (client_id or "").encode()
    tags = b"\0" if api(key).request_header_version(version) == 2 else b""
    size = _REQUEST.size + len(name) + len(tags) + sum(map(len, content))
    head = _FRAMED_REQUEST.pack(size, key, version, correlation_id, -1 if client_id is None else len(name))
    return b"".join((head, name, tags, *content))


def encode_response(api_key: int, version: int, correlation_id: int, message: object) -> list[Piece]:
    """A whole response in its frame."""
    tags = api(api_key).response_header_version(version)  # the later header adds one byte: no tagged fields
    if not carries_records(type(message), version):
        body = encode(message, version)
        return [_RESPONSE_HEADS[tags].pack(len(body) + 4 + tags, correlation_id) + body]
    pieces = encode_pieces(message, version)
    size = sum(map(len, pieces)) + 4 + tags
    return [_RESPONSE_HEADS[tags].pack(size, correlation_id), *pieces]


def encode_response_steps(
    api_key: int, version: int, correlation_id: int, message: object
) -> Generator[None, None, list[Piece]]:
    """The same, in steps."""
    tags = api(api_key).response_header_version(version)
    pieces = yield from encode_steps(message, version)
    size = sum(map(len, pieces)) + 4 + tags
    return [_RESPONSE_HEADS[tags].pack(size, correlation_id), *pieces]


def parse_response(spoken: Api, version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id and the body of a response whose frame's size has been taken off."""
    correlation_id, pos = parse_response_header(spoken, version, frame)
    return correlation_id, decode(spoken.response(), frame, version, pos)


def parse_response_header(spoken: Api, version: int, frame: Buffer) -> tuple[int, int]:
    """The correlation id of such a response, and the position of the body."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame)
        pos = _RESPONSE.size
        if spoken.response_header_version(version) == 1:
            pos = skip_tags(frame, pos, len(frame)) if frame[pos] else pos + 1
    except (struct_error, IndexError):
        raise MalformedMessage("the response ends within its header") from None
    return correlation_id, pos
