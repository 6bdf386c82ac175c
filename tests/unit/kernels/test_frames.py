"""Frames, Produce and Fetch requests, with kio (generated from Kafka's descriptors) as the witness of their bytes."""

from __future__ import annotations

import datetime
import importlib
import io
import struct
import uuid
from typing import Any

import pytest
from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema
from kio.serial import entity_writer

from kavka.kernels.layout import FLEXIBLE_FROM, MAX_FETCHED, MAX_TAGS, NEVER
from kavka.model.errors import MalformedMessage, UnsupportedVersion
from kavka.model.types import Uuid
from kavka.protocol.registry import API

PRODUCE = range(3, 14)
FETCH = range(4, 19)
TOPIC_ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
DIRECTORY_ID = uuid.UUID("fedcba98-7654-3210-fedc-ba9876543210")


def kio(api: str, version: int, kind: str) -> Any:
    return importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")


def written(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def made(cls: Any, **fields: Any) -> Any:
    """An entity with those of the fields that its version has."""
    return cls(**{name: value for name, value in fields.items() if name in cls.__dataclass_fields__})


def ms(value: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=value)


def produce_request(version: int) -> bytes:
    m = kio("produce", version, "request")
    partitions = tuple(
        made(m.PartitionProduceData, index=i, records=r) for i, r in enumerate((b"abc" * 100, b"", None))
    )
    topics = (
        made(m.TopicProduceData, name="žluťoučký", topic_id=TOPIC_ID, partition_data=partitions),
        made(m.TopicProduceData, name="empty", topic_id=DIRECTORY_ID, partition_data=()),
    )
    return written(made(m.ProduceRequest, transactional_id="tx", acks=-1, timeout=ms(1500), topic_data=topics))


def small_request(version: int, topics: list[list[bytes | None]], transactional_id: str | None = None) -> bytes:
    """A request with these records for the partitions of topics."""
    m = kio("produce", version, "request")
    data = tuple(
        made(
            m.TopicProduceData,
            name="t",
            topic_id=TOPIC_ID,
            partition_data=tuple(made(m.PartitionProduceData, index=i, records=r) for i, r in enumerate(rows)),
        )
        for rows in topics
    )
    return written(
        made(m.ProduceRequest, transactional_id=transactional_id, acks=-1, timeout=ms(1500), topic_data=data)
    )


def fetch_request(version: int) -> bytes:
    m = kio("fetch", version, "request")
    partition = made(
        m.FetchPartition,
        partition=7,
        current_leader_epoch=3,
        fetch_offset=1 << 40,
        last_fetched_epoch=2,
        log_start_offset=12,
        partition_max_bytes=1 << 20,
        replica_directory_id=DIRECTORY_ID,
        high_watermark=99,
    )
    plain = made(m.FetchPartition, partition=8, fetch_offset=0, partition_max_bytes=1)
    fields: dict[str, Any] = {
        "cluster_id": "cluster",
        "replica_id": 5,
        "max_wait": ms(500),
        "min_bytes": 1,
        "max_bytes": 1 << 25,
        "isolation_level": 1,
        "session_id": 77,
        "session_epoch": 8,
        "topics": (made(m.FetchTopic, topic="t", topic_id=TOPIC_ID, partitions=(partition, plain)),),
        "rack_id": "rack",
    }
    if version >= 7:
        fields["forgotten_topics_data"] = (
            made(m.ForgottenTopic, topic="old", topic_id=DIRECTORY_ID, partitions=(1, 2, 3)),
        )
    if version >= 15:
        fields["replica_state"] = m.ReplicaState(replica_id=5, replica_epoch=44)
    return written(made(m.FetchRequest, **fields))


@pytest.mark.parametrize("version", PRODUCE)
def test_a_produce_request_is_read_in_every_version(frames: Any, version: int) -> None:
    body = b"head" + produce_request(version)
    transactional_id, acks, timeout_ms, topics = frames.parse_produce(body + b"tail", 4, len(body), version)
    assert (transactional_id, acks, timeout_ms) == ("tx", -1, 1500)
    names = (Uuid(TOPIC_ID.bytes), Uuid(DIRECTORY_ID.bytes)) if version >= 13 else ("žluťoučký", "empty")
    assert topics == [(names[0], [(0, b"abc" * 100), (1, b""), (2, None)]), (names[1], [])]
    assert type(topics[0][0]) is (Uuid if version >= 13 else str)
    records = topics[0][1][0][1]
    assert isinstance(records, memoryview)
    assert records.obj is not None  # a view, not a copy


@pytest.mark.parametrize("version", PRODUCE)
def test_a_request_for_one_partition_is_read_without_a_list(frames: Any, version: int) -> None:
    body = b"head" + small_request(version, [[b"abc" * 100]])
    acks, name, partition, start, end = frames.parse_single(body + b"tail", 4, len(body), version)
    assert (acks, name, partition) == (-1, Uuid(TOPIC_ID.bytes) if version >= 13 else "t", 0)
    assert body[start:end] == b"abc" * 100


@pytest.mark.parametrize("version", PRODUCE)
def test_any_other_produce_request_is_not_for_one_partition(frames: Any, version: int) -> None:
    for topics in ([], [[]], [[b"a"], [b"b"]], [[b"a", b"b"]], [[None]], [[b"a"], []]):
        body = small_request(version, topics)
        assert frames.parse_single(body, 0, len(body), version) is None
    for transactional_id in ("tx", ""):
        body = small_request(version, [[b"a"]], transactional_id)
        assert frames.parse_single(body, 0, len(body), version) is None


@pytest.mark.parametrize("version", FETCH)
def test_a_fetch_request_is_read_in_every_version(frames: Any, version: int) -> None:
    body = fetch_request(version)
    fields = frames.parse_fetch(memoryview(bytearray(body)), 0, len(body), version)
    topic, old = (Uuid(TOPIC_ID.bytes), Uuid(DIRECTORY_ID.bytes)) if version >= 13 else ("t", "old")
    first = (
        7,
        3 if version >= 9 else -1,
        1 << 40,
        2 if version >= 12 else -1,
        12 if version >= 5 else -1,
        1 << 20,
        Uuid(DIRECTORY_ID.bytes) if version >= 17 else Uuid.ZERO,
        99 if version >= 18 else (1 << 63) - 1,
    )
    second = (8, -1, 0, -1, -1, 1, Uuid.ZERO, (1 << 63) - 1)
    assert fields._asdict() == {
        "replica_id": 5,
        "replica_epoch": 44 if version >= 15 else -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 25,
        "isolation_level": 1,
        "session_id": 77 if version >= 7 else 0,
        "session_epoch": 8 if version >= 7 else -1,
        "topics": [(topic, [first, second])],
        "forgotten": [(old, [1, 2, 3])] if version >= 7 else [],
        "rack_id": "rack" if version >= 11 else "",
        "cluster_id": "cluster" if version >= 12 else None,
    }


def test_a_version_nobody_has_is_refused(frames: Any) -> None:
    for version in (-1, 2, 14):
        with pytest.raises(UnsupportedVersion):
            frames.parse_produce(b"", 0, 0, version)
    for version in (3, 19):
        with pytest.raises(UnsupportedVersion):
            frames.parse_fetch(b"", 0, 0, version)


def frame(size: int) -> bytes:
    return struct.pack(">i", size) + bytes(max(size, 0))


def test_whole_frames_are_split_from_the_rest(frames: Any) -> None:
    data = b"??" + frame(3) + frame(0) + frame(10)[:9] + b"beyond"
    assert frames.split(data, 2, 22, 100) == ([(6, 9), (13, 13)], 13, 14)


def test_a_size_that_is_not_all_there_is_not_known(frames: Any) -> None:
    assert frames.split(frame(3) + b"\0\0\0", 0, 10, 100) == ([(4, 7)], 7, 0)
    assert frames.split(b"", 0, 0, 100) == ([], 0, 0)


@pytest.mark.parametrize("size", [-1, 101, -(1 << 31), (1 << 31) - 1])
def test_a_bad_size_is_refused_after_the_frames_before_it(frames: Any, size: int) -> None:
    bad = struct.pack(">i", size)
    with pytest.raises(MalformedMessage):
        frames.split(bad, 0, 4, 100)
    assert frames.split(frame(1) + bad, 0, 9, 100) == ([(4, 5)], 5, -1)


@pytest.mark.parametrize(("pos", "end"), [(-1, 2), (0, 5), (3, 2)])
def test_a_range_outside_the_buffer_is_a_mistake_of_the_caller(frames: Any, pos: int, end: int) -> None:
    for call in (
        lambda: frames.split(b"abcd", pos, end, 9),
        lambda: frames.parse_header(b"abcd", pos, end),
        lambda: frames.parse_produce(b"abcd", pos, end, 9),
        lambda: frames.parse_fetch(b"abcd", pos, end, 9),
    ):
        with pytest.raises(ValueError, match="no range"):
            call()


def header(key: int, version: int, client_id: bytes | None, tags: bytes = b"") -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 99, size) + (client_id or b"") + tags


def test_a_header_ends_where_its_version_says(frames: Any) -> None:
    old = header(0, 8, b"client")
    assert frames.parse_header(old + b"\0", 0, len(old) + 1) == (0, 8, 99, "client", len(old))
    new = header(0, 9, b"client", b"\x02\x05\x01x\x06\x00")
    assert frames.parse_header(b"." + new + b"body", 1, len(new) + 5) == (0, 9, 99, "client", len(new) + 1)
    assert frames.parse_header(header(18, 0, None), 0, 10) == (18, 0, 99, "", 10)


def test_the_header_of_an_unknown_api_ends_after_the_client_id(frames: Any) -> None:
    for key in (-1, len(FLEXIBLE_FROM), 32767):
        data = header(key, 20000, b"c")
        assert frames.parse_header(data + b"\0", 0, len(data) + 1) == (key, 20000, 99, "c", len(data))


def test_a_client_id_that_is_not_utf_8_is_refused(frames: Any) -> None:
    data = header(0, 3, b"\xff\xfe")
    with pytest.raises(MalformedMessage):
        frames.parse_header(data, 0, len(data))


def test_the_table_of_header_versions_is_that_of_the_descriptors() -> None:
    for key, flexible_from in enumerate(FLEXIBLE_FROM):
        for version in range(20):
            try:
                schema = load_request_schema(key, version)
            except (UnknownAPIKey, UnknownEntity):
                continue
            assert schema.__flexible__ == (version >= flexible_from), (key, version)
    assert FLEXIBLE_FROM[17] == FLEXIBLE_FROM[47] == NEVER


def test_the_table_of_header_versions_is_that_of_our_registry() -> None:
    for key, api in API.items():
        for version in range(api.min_version, api.max_version + 1):
            first = FLEXIBLE_FROM[key] if key < len(FLEXIBLE_FROM) else NEVER  # as `parse_header` takes it
            flexible = first != NEVER and version >= first
            assert api.request_header_version(version) == (2 if flexible else 1), (api.name, version)


@pytest.mark.parametrize("version", PRODUCE)
def test_every_cut_of_a_produce_request_is_malformed(frames: Any, version: int) -> None:
    body = produce_request(version)
    for cut in range(len(body)):
        with pytest.raises(MalformedMessage):
            frames.parse_produce(body[:cut], 0, cut, version)


@pytest.mark.parametrize("version", FETCH)
def test_every_cut_of_a_fetch_request_is_malformed(frames: Any, version: int) -> None:
    body = fetch_request(version)
    for cut in range(len(body)):
        with pytest.raises(MalformedMessage):
            frames.parse_fetch(body[:cut], 0, cut, version)


OVERLONG = b"\xff\xff\xff\xff\xff\x01"
TOO_LARGE = b"\xff\xff\xff\xff\x1f"


@pytest.mark.parametrize("length", [OVERLONG, TOO_LARGE, b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80"])
def test_a_bad_length_is_malformed_and_costs_nothing(frames: Any, length: bytes) -> None:
    for body in (length, b"\0\0\1\0\0\0\0" + length, b"\0\0\1\0\0\0\0\2\2t\2\0\0\0\0" + length):
        data = body + b"abcd"
        with pytest.raises(MalformedMessage):
            frames.parse_produce(data, 0, len(data), 9)


def test_null_arrays_and_names_are_malformed(frames: Any) -> None:
    for body in (b"\0\0\1\0\0\0\0\0", b"\0\0\1\0\0\0\0\2\0", b"\0\0\1\0\0\0\0\2\2t\0"):
        with pytest.raises(MalformedMessage):
            frames.parse_produce(body + bytes(9), 0, len(body) + 9, 9)


def test_unknown_tagged_fields_are_skipped_everywhere(frames: Any) -> None:
    tag = b"\1\7\3abc"
    body = b"\0\0\1\0\0\0\5\2\2t\2\0\0\0\4\3xy" + tag + tag + tag
    assert frames.parse_produce(body, 0, len(body), 9) == (None, 1, 5, [("t", [(4, b"xy")])])


def test_a_struct_has_few_tagged_fields(frames: Any) -> None:
    for count, reads in ((MAX_TAGS, True), (MAX_TAGS + 1, False)):
        body = b"\0\0\1\0\0\0\5\1" + bytes([count]) + b"\7\0" * count
        if reads:
            assert frames.parse_produce(body, 0, len(body), 9) == (None, 1, 5, [])
        else:
            with pytest.raises(MalformedMessage, match="tagged fields"):
                frames.parse_produce(body, 0, len(body), 9)


@pytest.mark.parametrize("version", [4, 18])
@pytest.mark.parametrize(("topics", "partitions"), [(1, MAX_FETCHED), (MAX_FETCHED // 2, 2)])
def test_a_fetch_names_so_many_partitions_at_most(frames: Any, version: int, topics: int, partitions: int) -> None:
    m = kio("fetch", version, "request")
    rows = tuple(made(m.FetchPartition, partition=i, fetch_offset=0, partition_max_bytes=1) for i in range(partitions))
    named = tuple(made(m.FetchTopic, topic="t", topic_id=TOPIC_ID, partitions=rows) for _ in range(topics))
    fields = {"max_wait": ms(1), "min_bytes": 1, "max_bytes": 1, "topics": named, "forgotten_topics_data": ()}
    body = written(made(m.FetchRequest, replica_id=-1, isolation_level=0, **fields))
    with pytest.raises(MalformedMessage, match="a Fetch of more than"):
        frames.parse_fetch(body, 0, len(body), version)


def frames_of(*heads: tuple[int, bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """Requests of an API (its key) with a client id (its size included), and where each of them is."""
    data, bounds = b"", []
    for key, client_id in heads:
        body = struct.pack(">hhi", key, 9, 1) + client_id + b"rest"
        bounds.append((len(data), len(data) + len(body)))
        data += body
    return data, bounds


@pytest.mark.parametrize(
    ("heads", "sole"),
    [
        ([(0, b"\0\3app")], (0, "app")),
        ([(0, b"\0\3app")] * 3, (0, "app")),
        ([(0, b"\xff\xff")] * 2, (0, "")),
        ([(0, b"\0\0")] * 2, (0, "")),
        ([(12, b"\0\3app")] * 2, (12, "app")),
        ([], None),
        ([(0, b"\0\3app"), (1, b"\0\3app")], None),
        ([(0, b"\0\3app"), (0, b"\0\3apq")], None),
        ([(0, b"\0\3app"), (0, b"\0\2ap")], None),
        ([(0, b"\xff\xfe")], None),
        ([(0, b"\0\xff")], None),
        ([(0, b"\0\1\xff")], None),
    ],
)
def test_requests_of_one_kind_and_client_are_known_as_such(
    frames: Any, heads: list[tuple[int, bytes]], sole: tuple[int, str] | None
) -> None:
    assert frames.sole_client(*frames_of(*heads)) == sole
