"""Produce and Fetch responses, with kio (generated from Kafka's descriptors) as the witness of their bytes."""

from __future__ import annotations

import datetime
import importlib
import io
import struct
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from kavka.kernels.layout import INLINE_RECORDS
from kavka.model.errors import UnsupportedVersion
from kavka.model.types import FileSlice, Uuid
from kavka.protocol.header import encode_response
from kavka.protocol.schemas import fetch, produce

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


@pytest.mark.parametrize("version", PRODUCE)
@pytest.mark.parametrize("full", [False, True])
def test_a_produce_response_has_the_bytes_of_the_descriptors(responses: Any, version: int, full: bool) -> None:
    m = kio("produce", version, "response")
    extra: dict[str, Any] = {"record_errors": (), "error_message": None}
    endpoints: list[tuple[int, str, int, str | None]] = []
    more: tuple[Any, ...] = ()
    if full:
        more = ([(3, "bad key"), (4, None)], "rejected", (2, 9))
        endpoints = [(2, "héllo", 9092, None), (3, "host", 9093, "r" * 200)]
        if version >= 8:
            errors = tuple(m.BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=t) for i, t in more[0])
            extra = {"record_errors": errors, "error_message": "rejected"}
        if version >= 10:
            extra["current_leader"] = m.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
    partition = made(
        m.PartitionProduceResponse,
        index=1,
        error_code=ErrorCode(6),
        base_offset=1 << 50,
        log_append_time=None,
        log_start_offset=5,
        **extra,
    )
    topics = (made(m.TopicProduceResponse, name="tópic", topic_id=TOPIC_ID, partition_responses=(partition,)),)
    nodes = (
        tuple(m.NodeEndpoint(node_id=n, host=h, port=p, rack=r) for n, h, p, r in endpoints) if version >= 10 else ()
    )
    expected = written(made(m.ProduceResponse, responses=topics, throttle_time=ms(20), node_endpoints=nodes))
    topic = Uuid(TOPIC_ID.bytes) if version >= 13 else "tópic"
    frame = responses.encode_produce_response(version, 42, [(topic, [(1, 6, 1 << 50, -1, 5, *more)])], 20, endpoints)
    assert frame == framed(42, expected, flexible=version >= 9)


@pytest.mark.parametrize("version", FETCH)
@pytest.mark.parametrize("full", [False, True])
def test_a_fetch_response_has_the_bytes_of_the_descriptors(responses: Any, version: int, full: bool) -> None:
    m = kio("fetch", version, "response")
    large = b"L" * (INLINE_RECORDS + 1)
    entities, ours = [], []
    for index, records in enumerate((b"small", large, None, b"")):
        more: tuple[Any, ...] = ()
        extra: dict[str, Any] = {}
        if full:
            more = ((4, 100), (2, 9), (200, 5))
            if version >= 12:
                extra["diverging_epoch"] = m.EpochEndOffset(epoch=4, end_offset=100)
                extra["current_leader"] = m.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
                extra["snapshot_id"] = m.SnapshotId(end_offset=200, epoch=5)
        aborted = None if index == 2 else [(1, 2), (3, 4)] if full else []
        entities.append(
            made(
                m.PartitionData,
                partition_index=index,
                error_code=ErrorCode(0),
                high_watermark=10,
                last_stable_offset=9,
                log_start_offset=3,
                aborted_transactions=None
                if aborted is None
                else tuple(m.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted),
                preferred_read_replica=6,
                records=records,
                **extra,
            )
        )
        ours.append((index, 0, 10, 9, 3, aborted, 6, records, *more))
    endpoints = [(2, "host", 9092, "rack")] if full else []
    nodes = (
        tuple(m.NodeEndpoint(node_id=n, host=h, port=p, rack=r) for n, h, p, r in endpoints) if version >= 16 else ()
    )
    topics = (made(m.FetchableTopicResponse, topic="t", topic_id=TOPIC_ID, partitions=tuple(entities)),)
    expected = written(
        made(
            m.FetchResponse,
            throttle_time=ms(1),
            error_code=ErrorCode(0),
            session_id=8,
            responses=topics,
            node_endpoints=nodes,
        )
    )
    topic = Uuid(TOPIC_ID.bytes) if version >= 13 else "t"
    pieces = responses.encode_fetch_response(version, -7, 1, 0, 8, [(topic, ours)], endpoints)
    assert b"".join(pieces) == framed(-7, expected, flexible=version >= 12)
    assert sum(piece is large for piece in pieces) == 1


def framed(correlation_id: int, body: bytes, flexible: bool) -> bytes:
    header = struct.pack(">i", correlation_id) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


class File:
    """A file that nobody reads."""

    def fileno(self) -> int:
        return -1

    def pin(self) -> None: ...

    def unpin(self) -> None: ...

    def read_at(self, position, length):
        raise AssertionError("it is sent, not read")


def test_a_file_in_a_fetch_response_stays_a_piece_and_is_counted(responses: Any) -> None:
    piece = FileSlice(File(), 100, 5000)
    before, found, after = responses.encode_fetch_response(
        12, 1, 0, 0, 0, [("t", [(0, 0, 1, 1, 0, None, -1, piece), (1, 0, 1, 1, 0, None, -1, b"x")])]
    )
    assert found is piece
    assert struct.unpack_from(">i", before)[0] == len(before) - 4 + 5000 + len(after)


def test_a_version_nobody_has_is_refused(responses: Any) -> None:
    for version in (-1, 2, 14):
        with pytest.raises(UnsupportedVersion):
            responses.encode_produce_response(version, 1, [])
    for version in (3, 19):
        with pytest.raises(UnsupportedVersion):
            responses.encode_fetch_response(version, 1, 0, 0, 0, [])


@pytest.mark.parametrize("version", PRODUCE)
def test_a_produce_response_has_the_bytes_of_the_generic_codec(responses: Any, version: int) -> None:
    generic = produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name="t",
                topic_id=Uuid(TOPIC_ID.bytes),
                partition_responses=[
                    produce.PartitionProduceResponse(index=2, error_code=0, base_offset=77, log_start_offset=5),
                    produce.PartitionProduceResponse(
                        index=3, error_code=87, base_offset=-1, log_append_time_ms=9, error_message="no"
                    ),
                ],
            )
        ],
        throttle_time_ms=4,
    )
    topic = Uuid(TOPIC_ID.bytes) if version >= 13 else "t"
    rows: Any = [(2, 0, 77, -1, 5), (3, 87, -1, 9, -1, [], "no", None)]
    expected = b"".join(encode_response(0, version, 42, generic))
    assert responses.encode_produce_response(version, 42, [(topic, rows)], 4) == expected


@pytest.mark.parametrize("version", PRODUCE)
def test_the_answer_to_one_batch_is_the_response_with_one_row(responses: Any, version: int) -> None:
    topic = Uuid(TOPIC_ID.bytes) if version >= 13 else "t"
    row = (2, 0, 77, -1, 5)
    expected = responses.encode_produce_response(version, 42, [(topic, [row])])
    assert responses.encode_produced(version, 42, topic, 2, 77, -1, 5) == expected


@pytest.mark.parametrize("version", FETCH)
def test_a_fetch_response_has_the_bytes_and_files_of_the_generic_codec(responses: Any, version: int) -> None:
    records = FileSlice(File(), 10, 20)
    rows = [(2, 0, 9, 8, 7, [(5, 6)], -1, records), (3, 1, -1, -1, -1, None, 4, b"")]
    generic = fetch.FetchResponse(
        throttle_time_ms=3,
        error_code=0,
        session_id=7 if version >= 7 else 0,
        responses=[
            fetch.FetchableTopicResponse(
                topic="t",
                topic_id=Uuid(TOPIC_ID.bytes),
                partitions=[
                    fetch.PartitionData(
                        partition_index=index,
                        error_code=error_code,
                        high_watermark=high_watermark,
                        last_stable_offset=stable_offset,
                        log_start_offset=start_offset,
                        aborted_transactions=aborted
                        and [fetch.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted],
                        preferred_read_replica=replica if version >= 11 else -1,
                        records=data,
                    )
                    for index, error_code, high_watermark, stable_offset, start_offset, aborted, replica, data in rows
                ],
            )
        ],
    )
    topic = Uuid(TOPIC_ID.bytes) if version >= 13 else "t"
    ours = responses.encode_fetch_response(version, 42, 3, 0, 7, [(topic, rows)])
    theirs = encode_response(1, version, 42, generic)
    assert joined(ours) == joined(theirs)


def joined(pieces: list[Any]) -> list[Any]:
    """The pieces with neighbouring bytes as one."""
    out: list[Any] = [b""]
    for piece in pieces:
        if isinstance(piece, FileSlice):
            out += [piece, b""]
        else:
            out[-1] += bytes(piece)
    return out
