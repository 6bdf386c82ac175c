"""Records from what `kavka produce` is given: lines, JSON lines, a whole file, or made up."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence, Set
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from kavka.cli.output import CommandError

_POOL_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 1 << 16
_CHUNK_RECORDS = 1000
_KNOWN: Final = frozenset(("key", "key_base64", "value", "value_base64", "headers", "timestamp"))
_PASSED_OVER: Final = frozenset(("topic", "partition", "offset"))
"""What `kavka consume --output json` says of where a record was."""


class Record(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


Parse = Callable[[bytes, int], Record]
"""The record in a line, which has a number."""


def keyed(key_separator: str | None, key: str | None = None, null: str | None = None) -> Parse:
    """Read a line: the key before the separator, if there is one; what is `null` is none."""
    separator = key_separator.encode() if key_separator is not None else None
    fixed = key.encode() if key is not None else None
    nothing = null.encode() if null is not None else None

    def parse(line: bytes, number: int) -> Record:
        value = line.removesuffix(b"\r")
        if separator is None:
            return Record(fixed, None if value == nothing else value)
        name, found, value = value.partition(separator)
        if not found:
            raise CommandError(f"line {number} has no key separator {key_separator!r}")
        return Record(None if name == nothing else name, None if value == nothing else value)

    return parse


def from_json_of(*, value: bool, key: bool) -> Parse:
    """Reads lines as `from_json` does; text stays JSON where values, or keys, are written by a schema."""
    typed = frozenset(name for name, is_typed in (("value", value), ("key", key)) if is_typed)
    return partial(from_json, typed=typed)


def from_json(line: bytes, number: int, *, typed: Set[str] = frozenset()) -> Record:
    """Read a line as `kavka consume --output json` writes it; where the record was is passed over."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise CommandError(f"line {number} is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise CommandError(f"line {number} is no JSON object")
    strange = sorted(fields.keys() - _KNOWN - _PASSED_OVER)
    if strange:
        raise CommandError(f"line {number} has {strange[0]!r}; known are {', '.join(sorted(_KNOWN))}")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(each, dict) and "name" in each for each in headers):
        raise CommandError(f"line {number}: headers are a list of objects with name and value")
    timestamp = fields.get("timestamp")
    if timestamp is not None and (not isinstance(timestamp, int) or isinstance(timestamp, bool)):
        raise CommandError(f"line {number}: timestamp is a number of milliseconds")
    pairs = tuple((str(each["name"]), _content(each, "value", number)) for each in headers)
    key, value = (
        json.dumps(fields[name], ensure_ascii=False).encode()
        if name in typed and isinstance(fields.get(name), str)
        else _content(fields, name, number)
        for name in ("key", "value")
    )
    return Record(key, value, pairs, timestamp)


def _content(fields: dict[str, Any], name: str, number: int) -> bytes | None:
    """Text as it is, base64 under its name, and anything else as JSON."""
    coded = fields.get(f"{name}_base64")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise CommandError(f"line {number}: {name}_base64 is no base64") from None
    content = fields.get(name)
    if content is None:
        return None
    return (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)).encode()


def generate(count: int, size: int, key: bytes | None = None) -> Iterator[Record]:
    """So many records of one key and random bytes, cut from one pool so that making them costs next to nothing."""
    pool = os.urandom(_POOL_BYTES + size)
    step, position = 4099, 0
    for _ in range(count):
        yield Record(key, pool[position : position + size])
        position = (position + step) % _POOL_BYTES


async def generated(count: int, size: int, key: bytes | None = None) -> AsyncIterator[Sequence[Record]]:
    """Generated records in chunks."""
    records = generate(count, size, key)
    while chunk := list(islice(records, _CHUNK_RECORDS)):
        yield chunk


async def single(record: Record) -> AsyncIterator[Sequence[Record]]:
    """A single record."""
    yield [record]


async def from_lines(file: Path | None, parse: Parse) -> AsyncIterator[Sequence[Record]]:
    """The records of a file or of standard input, in chunks as they come."""
    number, rest = 1, b""
    descriptor = sys.stdin.fileno() if file is None else os.open(file, os.O_RDONLY)
    try:
        while data := await _read(descriptor):
            *lines, rest = (rest + data).split(b"\n")
            chunk: list[Record] = []
            try:
                for line in lines:
                    chunk.append(parse(line, number))
                    number += 1
            except CommandError:
                yield chunk  # what came before the line that is no record
                raise
            yield chunk
        if rest:
            yield [parse(rest, number)]
    finally:
        if file is not None:
            os.close(descriptor)


async def _read(descriptor: int) -> bytes:
    """The next bytes as soon as there are some: a person who types must not wait for the end of the input."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.read(descriptor, _CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, lambda: None if readable.done() else readable.set_result(None))
    except OSError:  # a device that cannot be waited for, such as /dev/null
        return os.read(descriptor, _CHUNK_BYTES)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _CHUNK_BYTES)
