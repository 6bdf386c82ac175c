"""The metrics that a client pushes: OTLP's MetricsData in protobuf, read without a library.

Only what can be shown is read: gauges and sums as they are, of histograms and summaries their count and sum. A message
that is cut short or nested wrongly is a ValueError; fields that nobody here knows are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.wire.compression import Buffer, chunks

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

MAX_ATTRIBUTES: Final = 16
MAX_TEXT_BYTES: Final = 256
"""What is longer is cut: these are names and labels."""

Field = tuple[int, int | memoryview]
"""A field's number, and what it holds: a number, its eight or four bytes as a number, or bytes."""
Attributes = tuple[tuple[str, str], ...]

DELTA: Final = 1
_DOUBLE: Final = struct.Struct("<d")
_FIXED64: Final = struct.Struct("<Q")
_FIXED32: Final = struct.Struct("<I")

METRIC_DATA: Final = {5: "gauge", 7: "sum", 9: "histogram", 10: "exponential", 11: "summary"}
_POINT_ATTRIBUTES: Final = {"gauge": 7, "sum": 7, "histogram": 9, "exponential": 1, "summary": 7}
"""The field of a point that has its attributes."""


class Point(NamedTuple):
    """One number of one metric."""

    name: str
    value: float
    grows: bool
    """Whether it only ever grows, as a counter does."""
    delta: bool
    """Whether the value is what came on top since the last push."""
    attributes: Attributes


def decompressed(compression_type: int, data: bytes, max_bytes: int) -> Iterator[Buffer]:
    """What was pushed, in parts; raises KafkaError where it is damaged or more than `max_bytes`."""
    return chunks(compression_type, data, max_bytes)


def points(data: memoryview) -> Iterator[Point]:
    """The points of a push, in its order."""
    for number, resource_metrics in _messages(data):
        if number != 1:
            continue
        parts = list(_messages(resource_metrics))
        own: Attributes = ()
        for kind, resource in parts:
            if kind == 1:
                own = _attributes(resource, 1)
        for kind, scope_metrics in parts:
            if kind == 2:
                for inner, metric in _messages(scope_metrics):
                    if inner == 2:
                        yield from _metric(metric, own)


def _metric(metric: memoryview, own: Attributes) -> Iterator[Point]:
    name, kind, data = "", "", memoryview(b"")
    for number, value in _messages(metric):
        if number == 1:
            name = _text(value)
        elif number in METRIC_DATA:
            kind, data = METRIC_DATA[number], value
    grows, delta, rows = False, False, []
    for number, content in fields(data):
        if number == 1 and isinstance(content, memoryview):
            rows.append(content)
        elif number == 2 and kind != "summary":
            delta = content == DELTA
        elif number == 3 and kind == "sum":
            grows = bool(content)
    for row in rows:
        attributes = own + _attributes(row, _POINT_ATTRIBUTES[kind])
        if kind in ("gauge", "sum"):
            yield from _number(name, row, grows, delta, attributes)
        else:
            yield from _distribution(name, row, delta, attributes)


def _number(name: str, row: memoryview, grows: bool, delta: bool, attributes: Attributes) -> Iterator[Point]:
    for number, content in fields(row):
        if number == 4 and isinstance(content, int):
            yield Point(name, _double(content), grows, delta, attributes)
        elif number == 6 and isinstance(content, int):
            yield Point(name, float(_signed(content)), grows, delta, attributes)


def _distribution(name: str, row: memoryview, delta: bool, attributes: Attributes) -> Iterator[Point]:
    for number, content in fields(row):
        if number == 4 and isinstance(content, int):
            yield Point(f"{name}.count", float(content), True, delta, attributes)
        elif number == 5 and isinstance(content, int):
            yield Point(f"{name}.sum", _double(content), True, delta, attributes)


# -- protobuf -----------------------------------------------------------------------------------------


def fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message; ValueError where it breaks off."""
    pos, end = 0, len(data)
    while pos < end:
        tag, pos = _varint(data, pos)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, pos = _varint(data, pos)
            yield number, value
        elif wire == LENGTH:
            length, pos = _varint(data, pos)
            yield number, _taken(data, pos, length)
            pos += length
        elif wire == FIXED64:
            yield number, _FIXED64.unpack(_taken(data, pos, 8))[0]
            pos += 8
        elif wire == FIXED32:
            yield number, _FIXED32.unpack(_taken(data, pos, 4))[0]
            pos += 4
        else:
            raise ValueError(f"field {number} has the unknown wire type {wire}")


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    for number, content in fields(data):
        if isinstance(content, memoryview):
            yield number, content


def _taken(data: memoryview, pos: int, length: int) -> memoryview:
    found = data[pos : pos + length]
    if len(found) != length:
        raise ValueError("the message breaks off")
    return found


def _varint(data: memoryview, pos: int) -> tuple[int, int]:
    value = shift = 0
    while pos < len(data) and shift < 70:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        shift += 7
    raise ValueError("a number breaks off")


def _double(bits: int) -> float:
    return float(_DOUBLE.unpack(_FIXED64.pack(bits))[0])


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def _text(data: memoryview) -> str:
    return bytes(data[:MAX_TEXT_BYTES]).decode("utf-8", "replace")


def _attributes(message: memoryview, field: int) -> Attributes:
    """The attributes of a resource or a point whose value is a text, a number or yes or no."""
    found: list[tuple[str, str]] = []
    for number, pair in _messages(message):
        if number == field and len(found) < MAX_ATTRIBUTES:
            key, value = "", ""
            for part, content in _messages(pair):
                if part == 1:
                    key = _text(content)
                elif part == 2:
                    value = _any_value(content)
            found.append((key, value))
    return tuple(found)


def _any_value(message: memoryview) -> str:
    for number, content in fields(message):
        if number == 1 and isinstance(content, memoryview):
            return _text(content)
        if number == 2:
            return "true" if content else "false"
        if number == 3 and isinstance(content, int):
            return str(_signed(content))
        if number == 4 and isinstance(content, int):
            return repr(_double(content))
    return ""
