"""Turns declared messages into codecs: one flat function per message and version, compiled at its first use.

The source of each function is registered in `linecache`, so that tracebacks show it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from kavka.model.errors import UnsupportedVersion
from kavka.model.types import FileSlice, Piece
from kavka.protocol.primitives import Buffer
from kavka.protocol.schema import declared, holds_records

M = TypeVar("M")

Write = Callable[[Any, Callable[[Any], None]], None]
Read = Callable[[Buffer, int], tuple[Any, int]]
WriteSteps = Callable[[Any, Callable[[Any], None]], Generator[None, None, None]]
ReadSteps = Callable[[Buffer, int], Generator[None, None, tuple[Any, int]]]

_OWN_PIECE_BYTES: Final = 4096
_JOINED_PARTS: Final = 16_384
"""How many parts are joined in one step."""
_WRITERS: Final[dict[tuple[type, int], Write]] = {}
_READERS: Final[dict[tuple[type, int], Read]] = {}
_STEPWISE_WRITERS: Final[dict[tuple[type, int], WriteSteps]] = {}
_STEPWISE_READERS: Final[dict[tuple[type, int], ReadSteps]] = {}
_CARRIES_RECORDS: Final[dict[tuple[type, int], bool]] = {}


def encode(message: object, version: int) -> bytes:
    """The bytes of a message at a version."""
    parts: list[bytes] = []
    write = _WRITERS.get((type(message), version)) or writer(type(message), version)
    try:
        write(message, parts.append)
    except struct.error as error:
        raise ValueError(f"{type(message).__name__}: a value does not fit its field: {error}") from error
    return b"".join(parts)


def encode_pieces(message: object, version: int) -> list[Piece]:
    """The bytes of a message at a version, with slices of files and large record batches as pieces of their own."""
    parts: list[Piece] = []
    write = _WRITERS.get((type(message), version)) or writer(type(message), version)
    try:
        write(message, parts.append)
    except struct.error as error:
        raise ValueError(f"{type(message).__name__}: a value does not fit its field: {error}") from error
    return _join(parts)


def decode(cls: type[M], data: Buffer, version: int, offset: int = 0) -> M:
    """The message in the data at an offset; what follows it is left alone."""
    read = _READERS.get((cls, version)) or decoder(cls, version)
    found: M = read(data, offset)[0]
    return found


def decode_from(cls: type[M], data: Buffer, version: int, offset: int) -> tuple[M, int]:
    """The message in the data at an offset, and the offset after it."""
    read = _READERS.get((cls, version)) or decoder(cls, version)
    return read(data, offset)


def decode_steps(cls: type[M], data: Buffer, version: int, offset: int = 0) -> Generator[None, None, M]:
    """The same message, decoded as a generator that gives way after every so many items."""
    found = _STEPWISE_READERS.get((cls, version))
    if found is None:
        from kavka.protocol.reading import DecoderSource

        source = DecoderSource(cls, version, flexible=_is_flexible(cls, version), stepwise=True)
        name = f"<decode {cls.__name__} v{version} in steps>"
        found = _STEPWISE_READERS[cls, version] = _compile(name, source.text, source.names)
    message: M = (yield from found(data, offset))[0]
    return message


def encode_steps(message: object, version: int) -> Generator[None, None, list[Piece]]:
    """The pieces of a message, encoded as a generator that gives way after every so many items."""
    cls = type(message)
    found = _STEPWISE_WRITERS.get((cls, version))
    if found is None:
        from kavka.protocol.writing import EncoderSource

        source = EncoderSource(cls, version, flexible=_is_flexible(cls, version), stepwise=True)
        name = f"<encode {cls.__name__} v{version} in steps>"
        found = _STEPWISE_WRITERS[cls, version] = _compile(name, source.text, source.names)
    pieces: list[Piece] = []
    parts: list[Piece] = []
    try:
        for _ in found(message, parts.append):
            yield
            if len(parts) >= _JOINED_PARTS:
                pieces += _join(parts)
                parts.clear()
    except struct.error as error:
        raise ValueError(f"{cls.__name__}: a value does not fit its field: {error}") from error
    return pieces + _join(parts)


def encoder(cls: type, version: int) -> Callable[[Any, bytearray], None]:
    """A function that appends a message to a bytearray."""
    write = writer(cls, version)

    def append(message: Any, out: bytearray) -> None:
        parts: list[bytes] = []
        write(message, parts.append)
        out += b"".join(parts)

    return append


def carries_records(cls: type, version: int) -> bool:
    """Whether messages of a class hold record batches at a version, so that they are worth sending piece by piece."""
    found = _CARRIES_RECORDS.get((cls, version))
    if found is None:
        found = _CARRIES_RECORDS[cls, version] = holds_records(cls, version)
    return found


def writer(cls: type, version: int) -> Write:
    """The compiled function that hands the parts of a message to a callable."""
    found = _WRITERS.get((cls, version))
    if found is None:
        from kavka.protocol.writing import EncoderSource

        source = EncoderSource(cls, version, flexible=_is_flexible(cls, version))
        found = _WRITERS[cls, version] = _compile(f"<encode {cls.__name__} v{version}>", source.text, source.names)
    return found


def decoder(cls: type, version: int) -> Read:
    """The compiled function that reads a message from a buffer at a position, and says where it ends."""
    found = _READERS.get((cls, version))
    if found is None:
        from kavka.protocol.reading import DecoderSource

        source = DecoderSource(cls, version, flexible=_is_flexible(cls, version))
        found = _READERS[cls, version] = _compile(f"<decode {cls.__name__} v{version}>", source.text, source.names)
    return found


def _is_flexible(cls: type, version: int) -> bool:
    api = declared(cls)
    if version not in api.versions:
        first, last = api.versions[0], api.versions[-1]
        raise UnsupportedVersion(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return version in api.flexible


def _compile(filename: str, text: str, names: dict[str, Any]) -> Any:
    import linecache

    exec(compile(text, filename, "exec"), names)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    (function,) = (value for key, value in names.items() if key in ("encode", "decode"))
    return function


def _join(parts: list[Piece]) -> list[Piece]:
    """Join small neighbours; leave what lies in files, and what is too large to copy, as it is."""
    pieces: list[Piece] = []
    start = 0
    for position, part in enumerate(parts):
        if isinstance(part, FileSlice) or len(part) >= _OWN_PIECE_BYTES:
            if start < position:
                pieces.append(b"".join(parts[start:position]))  # type: ignore[arg-type]  # no file slice among these
            pieces.append(part)
            start = position + 1
    if start < len(parts):
        pieces.append(b"".join(parts[start:]))  # type: ignore[arg-type]
    return pieces
