"""Bytes of the events. The vectors were written by Apache Kafka 4.3.1's RemoteLogMetadataSerde."""

from __future__ import annotations

import pytest

from kavka.catalog.machine import segment_event, update_event
from kavka.catalog.records import (
    RemoteLogSegmentMetadataSnapshotRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
    decode_event,
    encode_event,
)
from kavka.catalog.segment import DeleteState, RemoteSegment, SegmentState, TopicIdPartition
from kavka.model.errors import MalformedMessage, UnsupportedVersion
from kavka.model.types import Uuid

FOO = TopicIdPartition(Uuid.parse("LWgrMmVrT0a__7a4SasuPA"), 1, "foo")
SEGMENT = RemoteSegment(
    Uuid.parse("bCqX9U--S-6U8XUM9II25Q"), 100, 199, 1700000000000, 1700000001000, 1 << 20, 1, ((0, 100), (2, 150))
)
ID = "0004666f6f2d682b32656b4f46bfffb6b849ab2e3c00000001006c2a97f54fbe4bee94f1750cf48236e500"
SEGMENT_HEX = (
    "0100" + ID + "000000000000006400000000000000c7000000010000018bcfe568000000018bcfe56be803"
    "000000000000000000000064000000000200000000000000960000100000000001000101"
)
PARTITION_HEX = "0004666f6f2d682b32656b4f46bfffb6b849ab2e3c0000000100"


def moved(state: SegmentState, at_ms: int, custom: bytes | None = None) -> RemoteSegment:
    return SEGMENT._replace(state=state, event_timestamp_ms=at_ms, custom_metadata=custom)


MARKED = RemotePartitionDeleteMetadataRecord(
    topic_id_partition=TopicIdPartitionEntry(name="foo", id=FOO.topic_id, partition=1),
    broker_id=1,
    event_timestamp_ms=1700000004000,
    remote_partition_delete_state=DeleteState.DELETE_PARTITION_MARKED,
)
VECTORS = [
    (segment_event(FOO, SEGMENT._replace(txn_index_empty=True)), SEGMENT_HEX),
    (segment_event(FOO, SEGMENT), SEGMENT_HEX.removesuffix("01000101") + "00"),
    (
        update_event(FOO, moved(SegmentState.COPY_SEGMENT_FINISHED, 1700000002000, b"\x01\x02\x03")),
        "0101" + ID + "000000010000018bcfe56fd0040102030100",
    ),
    (
        update_event(FOO, moved(SegmentState.DELETE_SEGMENT_STARTED, 1700000003000)),
        "0101" + ID + "000000010000018bcfe573b8000200",
    ),
    (MARKED, "0102" + PARTITION_HEX + "000000010000018bcfe577a00000"),
]


@pytest.mark.parametrize(("event", "expected"), VECTORS)
def test_events_have_the_bytes_that_kafka_writes(event: object, expected: str) -> None:
    assert encode_event(event).hex() == expected  # type: ignore[arg-type]
    assert decode_event(bytes.fromhex(expected)) == event


def test_a_snapshot_segment_says_whether_it_has_a_transaction_index() -> None:
    event = RemoteLogSegmentMetadataSnapshotRecord(
        segment_id=SEGMENT.id,
        start_offset=0,
        end_offset=9,
        broker_id=1,
        max_timestamp_ms=1,
        event_timestamp_ms=2,
        segment_leader_epochs=[SegmentLeaderEpochEntry(leader_epoch=0, offset=0)],
        segment_size_in_bytes=5,
        remote_log_segment_state=1,
        txn_index_empty=True,
    )
    assert decode_event(encode_event(event)) == event
    assert encode_event(event).endswith(bytes.fromhex("01 01 00 01 01".replace(" ", "")))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("0000" + ID, MalformedMessage),  # frame 0
        ("0200" + ID, MalformedMessage),  # a later frame
        ("010900", MalformedMessage),  # no such key
        ("010001" + SEGMENT_HEX[6:], UnsupportedVersion),
        (SEGMENT_HEX + "00", MalformedMessage),  # bytes after the end
        (SEGMENT_HEX[:-2], MalformedMessage),
        ("", MalformedMessage),
    ],
)
def test_what_is_no_event_is_refused(data: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_event(bytes.fromhex(data))
