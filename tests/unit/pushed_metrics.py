"""Makes what a client pushes: OTLP's MetricsData, in just the fields that clients write."""

from __future__ import annotations

import struct
from collections.abc import Mapping

GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY = 5, 7, 9, 10, 11
DELTA, CUMULATIVE = 1, 2


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def nested(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def fixed(field: int, value: float | int) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<q" if isinstance(value, int) else "<d", value)


def attributes(field: int, values: Mapping[str, str]) -> bytes:
    pairs = (nested(1, key.encode()) + nested(2, nested(1, value.encode())) for key, value in values.items())
    return b"".join(nested(field, pair) for pair in pairs)


def gauge(name: str, value: float | int, **labels: str) -> bytes:
    point = attributes(7, labels) + fixed(6 if isinstance(value, int) else 4, value)
    return nested(1, name.encode()) + nested(GAUGE, nested(1, point))


def counter(name: str, value: float | int, temporality: int = DELTA, **labels: str) -> bytes:
    point = attributes(7, labels) + fixed(6 if isinstance(value, int) else 4, value)
    return nested(1, name.encode()) + nested(SUM, nested(1, point) + number(2, temporality) + number(3, 1))


def distribution(kind: int, name: str, count: int, total: float, **labels: str) -> bytes:
    field = {HISTOGRAM: 9, EXPONENTIAL: 1, SUMMARY: 7}[kind]
    point = attributes(field, labels) + fixed(4, count) + fixed(5, total)
    return nested(1, name.encode()) + nested(kind, nested(1, point) + number(2, DELTA))


def push(*metrics: bytes, **resource: str) -> bytes:
    scope = b"".join(nested(2, metric) for metric in metrics)
    return nested(1, nested(1, attributes(1, resource)) + nested(2, scope))
