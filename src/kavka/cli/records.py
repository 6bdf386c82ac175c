"""Records as commands show and choose them: lines, JSON, a format of the user's, and filters."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import typer

from kavka.client import ConsumerRecord

Write = Callable[[ConsumerRecord], bytes]
Wanted = Callable[[ConsumerRecord], bool]


class DecodedBytes(bytes):
    """A key or value that was read by its schema: JSON."""


FIELDS: Final[dict[str, Write]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "k": lambda record: record.key if record.key is not None else b"",
    "v": lambda record: record.value if record.value is not None else b"",
    "K": lambda record: b"%d" % (len(record.key) if record.key is not None else -1),
    "V": lambda record: b"%d" % (len(record.value) if record.value is not None else -1),
    "h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PARTS: Final = re.compile(r"%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)


def as_line(separator: bytes | None) -> Write:
    """The value on a line of its own, with the key before it if there is a separator."""

    def write(record: ConsumerRecord) -> bytes:
        value = record.value if record.value is not None else b""
        if separator is None:
            return value + b"\n"
        return (record.key if record.key is not None else b"") + separator + value + b"\n"

    return write


def as_format(text: str) -> Write:
    """What a format makes of a record: %t %p %o %T %k %v %h, sizes by %K %V, and \\n \\t \\r \\0."""
    parts: list[bytes | Write] = []
    for field, escape, plain in _PARTS.findall(text):
        if plain:
            parts.append(plain.encode())
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        elif field == "%":
            parts.append(b"%")
        elif field in FIELDS:
            parts.append(FIELDS[field])
        else:
            known = " ".join(f"%{name}" for name in FIELDS)
            raise typer.BadParameter(f"{text!r}: it may have {known} %% and \\n \\t \\r \\0", param_hint="--format")
    return lambda record: b"".join(part if isinstance(part, bytes) else part(record) for part in parts)


def as_json(record: ConsumerRecord) -> bytes:
    """A record as one line of JSON; bytes that are not UTF-8 become base64 under a name that says so."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    _put(fields, "key", record.key)
    _put(fields, "value", record.value)
    headers: list[dict[str, Any]] = []
    for name, content in record.headers:
        header: dict[str, Any] = {"name": name}
        _put(header, "value", content)
        headers.append(header)
    fields["headers"] = headers
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _put(fields: dict[str, Any], name: str, data: bytes | None) -> None:
    if isinstance(data, DecodedBytes):
        fields[name] = json.loads(data)
        return
    try:
        fields[name] = None if data is None else data.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(data or b"").decode()


def chosen(key: str | None, value: str | None, headers: Iterable[str]) -> Wanted | None:
    """Which records are wanted: patterns that are found in key and value, headers that are there; None for all."""
    tests: list[Wanted] = []
    if key is not None:
        in_key = _pattern(key, "--key")
        tests.append(lambda record: record.key is not None and in_key.search(record.key) is not None)
    if value is not None:
        in_value = _pattern(value, "--value")
        tests.append(lambda record: record.value is not None and in_value.search(record.value) is not None)
    tests += [_with_header(text) for text in headers]
    return (lambda record: all(test(record) for test in tests)) if tests else None


def _with_header(text: str) -> Wanted:
    name, equals, content = text.partition("=")
    if equals:
        return lambda record: (name, content.encode()) in record.headers
    return lambda record: any(header == name for header, _ in record.headers)


def _pattern(text: str, option: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise typer.BadParameter(f"{text!r} is no regular expression: {error}", param_hint=option) from None
