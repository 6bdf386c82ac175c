"""Hostile frames and batches: an answer or an error of the protocol, and memory in proportion to the input."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scale import rounds

from kavka.kernels import COMPILED, plain_batches, plain_frames
from kavka.kernels.batches import scan
from kavka.model.errors import KafkaError
from kavka.protocol.compiler import encode
from kavka.protocol.schemas import fetch, produce
from kavka.records.batch import Record, records
from kavka.records.builder import build_batch
from kavka.records.validate import ProduceRules, validate

KERNELS: list[Any] = [(plain_batches, plain_frames)]
if COMPILED:
    from kavka.kernels import _batches, _frames

    KERNELS.append((_batches, _frames))

TWINS = pytest.mark.parametrize(("batches", "frames"), KERNELS, ids=["plain", "compiled"][: len(KERNELS)])
FUZZ = settings(max_examples=rounds(2000, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow])

BATCH = build_batch([Record(i, 1_700_000_000_000, b"k%d" % i, b"v" * 20, (("h", b"x"),)) for i in range(5)])
PRODUCE = produce.ProduceRequest(
    transactional_id="tx",
    acks=-1,
    timeout_ms=1000,
    topic_data=[
        produce.TopicProduceData(
            name="topic", partition_data=[produce.PartitionProduceData(index=i, records=BATCH) for i in range(2)]
        )
    ],
)
FETCH = fetch.FetchRequest(
    max_wait_ms=500,
    min_bytes=1,
    topics=[
        fetch.FetchTopic(
            topic="topic",
            partitions=[fetch.FetchPartition(partition=i, fetch_offset=5, partition_max_bytes=99) for i in range(3)],
        )
    ],
    forgotten_topics_data=[],
)
NUMBERS = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    bytes(4),
]


@st.composite
def wounded(draw: st.DrawFn, sound: bytes) -> bytes:
    """Bytes that were sound, with lengths, counts and single bytes changed, and pieces moved, lost or doubled."""
    data = bytearray(sound)
    for _ in range(draw(st.integers(1, 5))):
        at, size = draw(st.integers(0, len(data))), draw(st.integers(0, 40))
        match draw(st.integers(0, 4)):
            case 0:
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                number = draw(st.sampled_from(NUMBERS))
                data[at : at + len(number)] = number
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size]
            case 4:
                del data[at:]
    return bytes(data)


@contextlib.contextmanager
def bounded(size: int, factor: int = 64) -> Iterator[None]:
    """Nothing in here needs more memory than the input's size allows."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= factor * size + 65_536
    finally:
        tracemalloc.stop()


def sealed(data: bytes) -> bytes:
    """Data made one v2 batch by its size, magic and CRC."""
    out = bytearray(data)
    out[16] = 2
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """The result, or None after an error that the protocol knows; any other error is a bug."""
    try:
        return function(*args)
    except KafkaError:
        return None


@TWINS
@FUZZ
@given(data=st.data(), version=st.integers(3, 18))
def test_frames(batches: Any, frames: Any, data: st.DataObject, version: int) -> None:
    message: Any = PRODUCE if version < 14 else FETCH
    body = data.draw(st.binary(max_size=200) | wounded(encode(message, version)))
    stream = len(body).to_bytes(4, "big") + body + data.draw(st.sampled_from([*NUMBERS, b""])) + body
    with bounded(len(stream)):
        attempt(frames.split, stream, 0, len(stream), 1 << 20)
        attempt(frames.parse_header, body, 0, len(body))
        attempt(frames.parse_produce, body, 0, len(body), min(version, 13))
        attempt(frames.parse_single, body, 0, len(body), min(version, 13))
        attempt(frames.parse_fetch, body, 0, len(body), max(version, 4))


@TWINS
@FUZZ
@given(data=st.data(), right_crc=st.booleans())
def test_batches(batches: Any, frames: Any, data: st.DataObject, right_crc: bool) -> None:
    stream = data.draw(st.binary(max_size=200) | wounded(BATCH * 2))
    if right_crc and len(stream) > 61:
        stream = sealed(stream)  # so that the records behind the CRC are reached
        assert len(batches.scan(stream)) == 1
    with bounded(len(stream)):
        infos, valid, _ = batches.scan_prefix(stream)
        assert 0 <= valid <= len(stream)
        assert valid == sum(info.size for info in infos)
        attempt(batches.scan, stream)
        attempt(batches.accept, stream)
        for info in infos:
            attempt(batches.read_records, stream, info, info.position + 61, info.position + info.size)


LIMIT = 1 << 16


@FUZZ
@given(
    data=st.data(), codec=st.integers(0, 4), compact=st.booleans(), target=st.sampled_from(["producer", "gzip", "lz4"])
)
def test_the_inside_of_batches(data: st.DataObject, codec: int, compact: bool, target: str) -> None:
    sound = build_batch([Record(i, 5, b"k", b"some text" * 50) for i in range(5)], codec=codec)
    batch = sealed(sound[:61] + data.draw(wounded(sound[61:])))
    (info,) = scan(batch)
    with contextlib.suppress(KafkaError):
        assert all(type(record) is Record for record in records(batch, info, LIMIT))
    with contextlib.suppress(KafkaError):
        rules = ProduceRules(1 << 20, compression_type=target, compact=compact, before_max_ms=1 << 62, after_max_ms=100)
        found, infos = validate(batch, rules, 10)
        assert scan(found) == infos
