"""Bytes that are no message: always MalformedMessage, and never more memory than the bytes are worth."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model.errors import MalformedMessage
from kavka.model.types import Uuid
from kavka.protocol.compiler import decode, encode
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schema import Int32, Int64, Records, declared, message, request, since, tag

Samples = Callable[[type, int], Iterator[Any]]


@message
class Point:
    x: Int32
    y: Int64


@request(key=0, versions="0-1", flexible="1+")
class Probe:
    name: str
    note: str | None
    blob: bytes
    numbers: list[Int32]
    ids: list[Uuid]
    words: list[str] | None
    points: list[Point]
    batches: Records | None
    extra: Annotated[list[Int32], since(1), tag(0)]


def field_bytes(version: int, **changed: bytes) -> bytes:
    """An empty Probe with the bytes of some fields changed."""
    empty = dict.fromkeys(Probe.__annotations__, b"\1" if version else bytes(4))
    empty |= {"extra": b"\0"} if version else {"name": bytes(2), "note": bytes(2), "extra": b""}
    return b"".join((empty | changed).values())


def refused(data: bytes, version: int, match: str) -> None:
    with pytest.raises(MalformedMessage, match=match):
        decode(Probe, data, version)


@pytest.mark.parametrize("version", [0, 1])
def test_the_probe_itself_is_well_formed(version: int) -> None:
    probe = decode(Probe, field_bytes(version), version)
    assert (probe.name, probe.note, probe.words, probe.points, probe.batches) == ("", "", [], [], b"")


@pytest.mark.parametrize("name", ["name", "blob", "numbers", "ids", "points"])
def test_null_is_refused_where_a_field_may_not_be_null(name: str) -> None:
    minus_one = b"\xff\xff" if name == "name" else b"\xff\xff\xff\xff"
    refused(field_bytes(0, **{name: minus_one}), 0, f"{name} is null")
    refused(field_bytes(0, **{name: b"\x80" + bytes(len(minus_one) - 1)}), 0, f"{name} is null")
    refused(field_bytes(1, **{name: b"\0"}), 1, f"{name} is null")


@pytest.mark.parametrize("name", ["name", "note", "blob", "numbers", "ids", "words", "points", "batches"])
def test_lengths_beyond_the_data_are_refused(name: str) -> None:
    many = b"\x7f\xff" if name in ("name", "note") else b"\x7f\xff\xff\xff"
    refused(field_bytes(0, **{name: many}), 0, f"{name} has a length of")
    refused(field_bytes(1, **{name: b"\x7f"}), 1, f"{name} has a length of 126")


@pytest.mark.parametrize("name", ["name", "blob", "numbers", "ids", "words", "points", "batches"])
def test_huge_counts_cost_no_memory(name: str) -> None:
    data = field_bytes(1, **{name: b"\xff\xff\xff\xff\x0f"}) + bytes(1000)
    reason = f"{name} has a length of [34]"
    refused(data, 1, reason)  # compiles the decoder, which is not what is measured
    tracemalloc.start()
    try:
        refused(data, 1, reason)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("name", ["name", "numbers", "points", "extra"])
def test_varints_without_an_end_are_refused(name: str) -> None:
    refused(field_bytes(1, **{name: b"\xff" * 6 + bytes(100)}), 1, "variable-length integer")
    refused(field_bytes(1, **{name: b"\xff\xff\xff\xff\x7f" + bytes(100)}), 1, "variable-length integer")


def test_a_varint_may_be_longer_than_it_needs_to_be() -> None:
    assert decode(Probe, field_bytes(1, name=b"\x82\x80\0a"), 1).name == "a"


def test_strings_longer_than_kafka_allows_are_refused() -> None:
    refused(field_bytes(1, name=b"\x81\x80\x02" + b"a" * 32768), 1, "at most 32767")


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82"])
def test_strings_that_are_not_utf_8_are_refused(bad: bytes) -> None:
    refused(field_bytes(0, name=len(bad).to_bytes(2, "big") + bad), 0, "not UTF-8")
    refused(field_bytes(1, words=bytes([2, len(bad) + 1]) + bad), 1, "not UTF-8")


def test_tagged_fields_beyond_the_data_are_refused() -> None:
    refused(field_bytes(1, extra=b"\1\0\x7f"), 1, "tagged field")
    refused(field_bytes(1, extra=b"\1\x05\x7f"), 1, "tagged field")
    refused(field_bytes(1, extra=b"\xff\xff\xff\xff\x0f\x05\0"), 1, "beyond the end")
    refused(field_bytes(1, points=b"\2" + bytes(12) + b"\1\x09\x7f"), 1, "tagged field")


@pytest.mark.parametrize("key", sorted(API))
def test_a_message_cut_anywhere_is_refused(key: int, samples: Samples) -> None:
    draw = random.Random(key)
    for cls in (API[key].request(), API[key].response()):
        for version in {declared(cls).versions[0], declared(cls).versions[-1]}:
            full = encode(next(sample for n, sample in enumerate(samples(cls, version)) if n == 2), version)
            for cut in draw.sample(range(len(full)), min(25, len(full))):
                with pytest.raises(MalformedMessage):
                    decode(cls, full[:cut], version)


@pytest.mark.parametrize("key", sorted(API))
def test_a_damaged_message_is_read_or_refused(key: int, samples: Samples) -> None:
    draw = random.Random(key)
    for cls in (API[key].request(), API[key].response()):
        version = declared(cls).versions[-1]
        for sample in samples(cls, version):
            damaged = bytearray(encode(sample, version)[:5000])
            for _ in range(min(3, len(damaged))):
                damaged[draw.randrange(len(damaged))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
            read_or_refused(cls, bytes(damaged), version)


@given(key=st.sampled_from(sorted(API)), data=st.binary(max_size=300), which=st.booleans(), pick=st.integers(0, 20))
def test_random_bytes_are_read_or_refused(key: ApiKey, data: bytes, which: bool, pick: int) -> None:
    cls = API[key].request() if which else API[key].response()
    versions = declared(cls).versions
    read_or_refused(cls, data, versions[pick % len(versions)])


def read_or_refused(cls: type, data: bytes, version: int) -> None:
    """Decode; what is read is re-encoded to no more than what was there, unknown tags being dropped."""
    try:
        found: Any = decode(cls, data, version)
    except MalformedMessage:
        return
    assert len(encode(found, version)) <= len(data)
