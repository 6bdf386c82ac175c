"""The compiled kernels and their twins: one answer or one error, whatever they are given."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scale import rounds

from kavka.kernels import COMPILED, plain_batches, plain_frames, plain_responses
from kavka.kernels.layout import INLINE_RECORDS
from kavka.model.errors import KafkaError
from kavka.model.types import FileSlice, Uuid
from kavka.protocol.compiler import encode
from kavka.protocol.schemas import fetch, produce
from kavka.records.batch import Record
from kavka.records.builder import build_batch

if COMPILED:
    from kavka.kernels import _batches, _frames, _responses
else:
    _batches, _frames, _responses = plain_batches, plain_frames, plain_responses

pytestmark = pytest.mark.skipif(not COMPILED, reason="the kernels are not compiled here")

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
THOROUGH = settings(max_examples=rounds(2000, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plainly(value: Any) -> Any:
    """A value without the types in which the twins may differ."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, plain_batches.BatchInfo | _batches.BatchInfo):
        return value.fields()
    if isinstance(value, tuple):
        return tuple(plainly(item) for item in value)
    if isinstance(value, list):
        return [plainly(item) for item in value]
    return value


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a call returns, or the error it ends with; a kernel raises no other errors than these."""
    try:
        return plainly(function(*args))
    except (KafkaError, ValueError, TypeError) as error:
        return type(error)


def assert_same(kernel: Any, twin: Any, name: str, *args: Any) -> Any:
    compiled, plain = outcome(getattr(kernel, name), *args), outcome(getattr(twin, name), *args)
    assert compiled == plain
    return plain


@st.composite
def damaged(draw: st.DrawFn, base: st.SearchStrategy[bytes]) -> bytes:
    """Sound bytes, or sound bytes with a few wounds."""
    data = bytearray(draw(base))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["set", "cut", "insert", "drop", "number"])):
            case "set" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = draw(st.binary(max_size=8))
            case "drop":
                del data[at : at + draw(st.integers(1, 8))]
            case "number" if at + 4 <= len(data):
                data[at : at + 4] = draw(INT32).to_bytes(4, "big", signed=True)
    return bytes(data)


HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)


@st.composite
def sound_batches(draw: st.DrawFn) -> bytes:
    out = bytearray()
    for _ in range(draw(st.integers(1, 3))):
        base = draw(st.integers(0, 1 << 40))
        records = [
            Record(
                base + delta,
                draw(st.integers(-1, 1 << 45)),
                draw(st.none() | st.binary(max_size=9)),
                draw(st.none() | st.binary(max_size=200)),
                draw(HEADERS),
            )
            for delta in range(draw(st.integers(1, 4)))
        ]
        out += build_batch(
            records,
            leader_epoch=draw(INT32),
            producer_id=draw(INT64),
            producer_epoch=draw(INT16),
            base_sequence=draw(INT32),
            transactional=draw(st.booleans()),
            control=draw(st.booleans()),
            log_append_time=draw(st.none() | st.integers(0, 1 << 45)),
        )
    return bytes(out)


BATCHES = st.binary(max_size=150) | damaged(sound_batches())
RANGES = st.tuples(st.integers(-2, 200), st.integers(-2, 200)) | st.just((0, -1))


@THOROUGH
@given(st.binary(max_size=60), st.integers(0, 300), st.integers(0, 7), st.integers(0, (1 << 32) - 1))
def test_the_crc_is_the_same_at_any_length_and_alignment(seed: bytes, times: int, skip: int, start: int) -> None:
    data = memoryview(b"x" + seed * times)[min(skip, 1 + len(seed) * times) :]
    assert_same(_batches, plain_batches, "crc32c", data, start)


@THOROUGH
@given(BATCHES, RANGES, st.booleans())
def test_scanning_is_the_same(data: bytes, bounds: tuple[int, int], check_crc: bool) -> None:
    assert_same(_batches, plain_batches, "scan", data, *bounds, check_crc)
    assert_same(_batches, plain_batches, "scan_prefix", memoryview(bytearray(data)), *bounds, check_crc)
    assert_same(_batches, plain_batches, "accept", data, *bounds)


@st.composite
def produced_batches(draw: st.DrawFn) -> bytes:
    times = st.integers(-1, 1 << 45) | st.sampled_from([0, (1 << 63) - 1])
    records = [Record(delta, draw(times), None, b"v") for delta in range(draw(st.integers(1, 3)))]
    return build_batch(records, codec=0, producer_id=draw(st.sampled_from([-1, 5])), base_sequence=draw(INT32))


@THOROUGH
@given(
    damaged(produced_batches()), st.integers(50, 150), INT64 | st.integers(0, 1 << 45), st.integers(0, (1 << 63) - 1)
)
def test_accepting_is_the_same(data: bytes, max_size: int, now_ms: int, after_max_ms: int) -> None:
    for keyed in (False, True):
        limits = max_size, after_max_ms, after_max_ms, keyed
        compiled = outcome(_batches.accept, data, 0, -1, now_ms, _batches.Limits(*limits))
        assert compiled == outcome(plain_batches.accept, data, 0, -1, now_ms, plain_batches.Limits(*limits))


@THOROUGH
@given(st.binary(max_size=100) | damaged(sound_batches()), st.integers(-2, 150), INT64, INT32)
def test_patching_is_the_same(data: bytes, position: int, offset: int, epoch: int) -> None:
    for name, args in (("patch", (offset, epoch)), ("set_log_append_time", (offset,))):
        ours, twins = bytearray(data), bytearray(data)
        assert outcome(getattr(_batches, name), ours, position, *args) == outcome(
            getattr(plain_batches, name), twins, position, *args
        )
        assert ours == twins
    assert outcome(_batches.patched_prefix, data, _batches.BatchInfo(position), offset, epoch) == outcome(
        plain_batches.patched_prefix, data, plain_batches.BatchInfo(position), offset, epoch
    )


@given(INT64, st.integers(-1 << 31, (1 << 31) - 1), INT32, st.integers(-(1 << 15), (1 << 15) - 1))
def test_the_properties_of_a_header_are_the_same(offset: int, delta: int, sequence: int, attributes: int) -> None:
    fields = {
        "base_offset": offset,
        "last_offset_delta": delta,
        "base_sequence": sequence,
        "attributes": attributes,
    }
    ours, twin = _batches.BatchInfo(**fields), plain_batches.BatchInfo(**fields)
    for name in ("last_offset", "last_sequence", "codec", "is_control", "is_transactional", "is_log_append_time"):
        assert getattr(ours, name) == getattr(twin, name), name
    assert ours.has_delete_horizon == twin.has_delete_horizon
    assert ours.fields() == twin.fields()
    assert repr(ours) == repr(twin)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    return b"".join(
        plain_batches.encode_record(
            draw(st.integers(0, 1 << 20)),
            draw(st.integers(-(1 << 50), 1 << 50)),
            draw(st.none() | st.binary(max_size=5)),
            draw(st.none() | st.binary(max_size=70)),
            draw(HEADERS),
        )
        for _ in range(draw(st.integers(0, 4)))
    )


@THOROUGH
@given(st.binary(max_size=60) | damaged(payloads()), st.integers(-1, 5), st.sampled_from([0, 8]), INT64, INT64, INT64)
def test_reading_records_is_the_same(
    data: bytes, count: int, attributes: int, base_offset: int, base_timestamp: int, max_timestamp: int
) -> None:
    fields = {
        "base_offset": base_offset,
        "base_timestamp": base_timestamp,
        "max_timestamp": max_timestamp,
        "count": count,
        "attributes": attributes,
    }
    assert outcome(_batches.read_records, data, _batches.BatchInfo(**fields)) == outcome(
        plain_batches.read_records, data, plain_batches.BatchInfo(**fields)
    )


@given(
    st.integers(-(1 << 31), (1 << 31) - 1),
    INT64,
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=200),
    HEADERS,
)
def test_encoding_a_record_is_the_same(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Any
) -> None:
    assert_same(_batches, plain_batches, "encode_record", offset, timestamp, key, value, headers)


NAME = st.text(max_size=12)
UUID = st.binary(min_size=16, max_size=16).map(Uuid)


@st.composite
def produce_requests(draw: st.DrawFn, version: int) -> bytes:
    topics = [
        produce.TopicProduceData(
            name=draw(NAME),
            topic_id=draw(UUID),
            partition_data=[
                produce.PartitionProduceData(index=draw(INT32), records=draw(st.none() | st.binary(max_size=150)))
                for _ in range(draw(st.integers(0, 3)))
            ],
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    request = produce.ProduceRequest(
        transactional_id=draw(st.none() | NAME), acks=draw(INT16), timeout_ms=draw(INT32), topic_data=topics
    )
    return encode(request, version)


@st.composite
def fetch_requests(draw: st.DrawFn, version: int) -> bytes:
    def partition() -> Any:
        extra = {"last_fetched_epoch": draw(INT32)} if version >= 12 else {}
        if version >= 18:
            extra["high_watermark"] = draw(INT64)
        return fetch.FetchPartition(
            partition=draw(INT32),
            current_leader_epoch=draw(INT32),
            fetch_offset=draw(INT64),
            log_start_offset=draw(INT64),
            partition_max_bytes=draw(INT32),
            replica_directory_id=draw(UUID),
            **extra,
        )

    sizes = st.integers(0, 3)
    extra: dict[str, Any] = {"replica_id": draw(INT32)} if version < 15 else {}
    if version >= 15:
        extra["replica_state"] = fetch.ReplicaState(replica_id=draw(INT32), replica_epoch=draw(INT64))
    if version >= 7:
        extra["forgotten_topics_data"] = [
            fetch.ForgottenTopic(topic=draw(NAME), topic_id=draw(UUID), partitions=draw(st.lists(INT32, max_size=3)))
            for _ in range(draw(sizes))
        ]
    request = fetch.FetchRequest(
        cluster_id=draw(st.none() | NAME),
        max_wait_ms=draw(INT32),
        min_bytes=draw(INT32),
        max_bytes=draw(INT32),
        isolation_level=draw(st.integers(-128, 127)),
        session_id=draw(INT32),
        session_epoch=draw(INT32),
        topics=[
            fetch.FetchTopic(
                topic=draw(NAME), topic_id=draw(UUID), partitions=[partition() for _ in range(draw(sizes))]
            )
            for _ in range(draw(sizes))
        ],
        rack_id=draw(NAME),
        **extra,
    )
    return encode(request, version)


@THOROUGH
@given(st.data(), st.integers(2, 14), st.integers(0, 3))
def test_parsing_produce_is_the_same(data: st.DataObject, version: int, pad: int) -> None:
    sound = damaged(produce_requests(min(max(version, 3), 13)))
    body = data.draw(st.binary(max_size=80) | sound)
    buffer = bytes(pad) + body + b"\1\2\3"
    found = assert_same(_frames, plain_frames, "parse_produce", buffer, pad, pad + len(body), version)
    assert found == outcome(_frames.parse_produce, bytearray(buffer), pad, pad + len(body), version)
    assert_same(_frames, plain_frames, "parse_single", buffer, pad, pad + len(body), version)


@THOROUGH
@given(st.data(), st.integers(3, 13))
def test_a_request_for_one_partition_is_read_as_any_other(data: st.DataObject, version: int) -> None:
    body = data.draw(damaged(produce_requests(version)))
    found = outcome(_frames.parse_single, body, 0, len(body), version)
    match outcome(_frames.parse_produce, body, 0, len(body), version):
        case (None, acks, _, [(topic, [(partition, bytes(records))])]):
            assert found[:3] == (acks, topic, partition)
            assert body[found[3] : found[4]] == records
        case tuple():
            assert found is None
        case error:
            assert found in (None, error)


@THOROUGH
@given(st.data(), st.integers(3, 19))
def test_parsing_fetch_is_the_same(data: st.DataObject, version: int) -> None:
    body = data.draw(st.binary(max_size=80) | damaged(fetch_requests(min(max(version, 4), 18))))
    assert_same(_frames, plain_frames, "parse_fetch", memoryview(body), 0, len(body), version)


@THOROUGH
@given(st.binary(max_size=40), st.integers(-1, 100), st.integers(-1, 25), st.binary(max_size=20))
def test_parsing_a_header_is_the_same(tail: bytes, key: int, version: int, client_id: bytes) -> None:
    head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(4)
    for data in (tail, head + tail, head + len(client_id).to_bytes(2, "big") + client_id + tail):
        assert_same(_frames, plain_frames, "parse_header", data, 0, len(data))


FRAMES = st.lists(st.binary(max_size=6).map(lambda body: len(body).to_bytes(4, "big") + body), max_size=5).map(b"".join)


@given(damaged(FRAMES) | st.binary(max_size=20), RANGES, st.integers(-1, 10))
def test_splitting_is_the_same(data: bytes, bounds: tuple[int, int], max_frame: int) -> None:
    assert_same(_frames, plain_frames, "split", data, *bounds, max_frame)
    assert_same(_frames, plain_frames, "split", data, 0, len(data), max_frame)


PRODUCES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1]),
        INT16 | st.sampled_from([-1, 0, 1, 2]),
        st.sampled_from([b"", b"a", b"ab", b"\xff"]),
    ),
    max_size=4,
)


@THOROUGH
@given(PRODUCES, st.integers(-2, 3), st.integers(-2, 3))
def test_finding_the_sole_client_is_the_same(requests: list[Any], before: int, after: int) -> None:
    data, frames = b"", []
    for key, size, rest in requests:
        body = key.to_bytes(2, "big") + bytes(6) + size.to_bytes(2, "big", signed=True) + rest
        frames.append((len(data) + before, len(data) + len(body) + after))
        data += body
    assert_same(_frames, plain_frames, "sole_client", data, frames)


PAIR32 = st.none() | st.just((-1, -1)) | st.tuples(INT32, INT32)
ENDPOINTS = st.lists(st.tuples(INT32, NAME, INT32, st.none() | NAME), max_size=3)


def topics_of(partition: st.SearchStrategy[Any], version: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.tuples(UUID if version >= 13 else NAME, st.lists(partition, max_size=3)), max_size=3)


@THOROUGH
@given(st.data(), st.integers(3, 13), INT32, INT32, ENDPOINTS)
def test_encoding_a_produce_response_is_the_same(
    data: st.DataObject, version: int, correlation_id: int, throttle: int, endpoints: list[Any]
) -> None:
    short = st.tuples(INT32, INT16, INT64, INT64, INT64)
    errors = st.lists(st.tuples(INT32, st.none() | st.text(max_size=200)), max_size=2)
    full = st.tuples(INT32, INT16, INT64, INT64, INT64, errors, st.none() | NAME, PAIR32)
    topics = data.draw(topics_of(short | full, version))
    assert_same(
        _responses, plain_responses, "encode_produce_response", version, correlation_id, topics, throttle, endpoints
    )


@THOROUGH
@given(st.data(), st.integers(2, 14), INT32, INT32, st.tuples(INT64, INT64, INT64))
def test_encoding_the_answer_to_one_batch_is_the_same(
    data: st.DataObject, version: int, correlation_id: int, partition: int, numbers: tuple[int, int, int]
) -> None:
    topic = data.draw(UUID if version >= 13 else NAME)
    assert_same(_responses, plain_responses, "encode_produced", version, correlation_id, topic, partition, *numbers)


class File:
    """A file that nobody reads."""

    def fileno(self) -> int:
        return -1

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


RECORDS = (
    st.none()
    | st.binary(max_size=50)
    | st.binary(max_size=5).map(bytearray)
    | st.sampled_from(
        [bytes(INLINE_RECORDS), bytes(INLINE_RECORDS + 1), FileSlice(File(), 5, 0), FileSlice(File(), 5, 9)]
    )
)


@THOROUGH
@given(st.data(), st.integers(4, 18), ENDPOINTS)
def test_encoding_a_fetch_response_is_the_same(data: st.DataObject, version: int, endpoints: list[Any]) -> None:
    aborted = st.none() | st.lists(st.tuples(INT64, INT64), max_size=3)
    short = st.tuples(INT32, INT16, INT64, INT64, INT64, aborted, INT32, RECORDS)
    full = st.tuples(short, st.none() | st.tuples(INT32, INT64), PAIR32, st.none() | st.tuples(INT64, INT32)).map(
        lambda parts: (*parts[0], *parts[1:])
    )
    topics = data.draw(topics_of(short | full, version))
    assert_same(_responses, plain_responses, "encode_fetch_response", version, 5, 6, 7, 8, topics, endpoints)


@pytest.mark.parametrize("kernel", [_frames, plain_frames], ids=["compiled", "plain"])
@settings(max_examples=60, deadline=None)
@given(
    st.data(), st.integers(3, 13), st.sampled_from([b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff"])
)
def test_no_length_makes_a_parser_allocate_what_the_frame_does_not_hold(
    kernel: Any, data: st.DataObject, version: int, length: bytes
) -> None:
    body = bytearray(data.draw(produce_requests(version)))
    at = data.draw(st.integers(0, len(body)))
    body[at : at + 4] = length
    tracemalloc.start()
    try:
        for call in (kernel.parse_produce, kernel.parse_single, kernel.parse_fetch):
            outcome(call, bytes(body), 0, len(body), max(version, 4))
        assert tracemalloc.get_traced_memory()[1] < 64 * len(body) + 65_536
    finally:
        tracemalloc.stop()
