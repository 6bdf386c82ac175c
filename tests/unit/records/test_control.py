"""Control records: Kafka's bytes, and what is read back of them."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from kavka.kernels.batches import scan
from kavka.model.errors import InvalidRecord
from kavka.model.types import Uuid
from kavka.protocol.schemas.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
)
from kavka.records.batch import Record, records
from kavka.records.control import (
    ControlType,
    TxnMarker,
    control_key,
    control_type,
    parse_quorum_message,
    parse_txn_marker,
    quorum_batch,
    txn_marker_batch,
)


@pytest.mark.parametrize(("commit", "witness"), [(True, COMMIT_MARKER), (False, ABORT_MARKER)])
def test_a_marker_ends_the_producer_s_transaction(commit: bool, witness: Any) -> None:
    data = txn_marker_batch(
        commit=commit, producer_id=5, producer_epoch=6, coordinator_epoch=7, timestamp=8, base_offset=9, leader_epoch=10
    )
    (info,) = scan(data)
    assert info.is_control
    assert info.is_transactional
    assert (info.base_offset, info.leader_epoch, info.producer_id, info.producer_epoch) == (9, 10, 5, 6)
    assert (info.base_sequence, info.count, info.max_timestamp) == (-1, 1, 8)
    (record,) = records(data, info)
    assert (record.key, record.value) == (bytes([0, 0, 0, commit]), bytes([0, 0, 0, 0, 0, 7]))
    assert ControlRecord.parse(record.key) == witness
    assert parse_txn_marker(record) == TxnMarker(commit, 7)


MESSAGES = [
    LeaderChangeMessage(
        version=0,
        leader_id=1,
        voters=[LeaderChangeVoter(voter_id=1), LeaderChangeVoter(voter_id=2)],
        granting_voters=[LeaderChangeVoter(voter_id=1)],
    ),
    KRaftVersionRecord(version=0, kraft_version=1),
    VotersRecord(
        version=0,
        voters=[
            Voter(
                voter_id=1,
                voter_directory_id=Uuid(b"d" * 16),
                endpoints=[Endpoint(name="CONTROLLER", host="localhost", port=9093)],
                kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
            )
        ],
    ),
    SnapshotHeaderRecord(version=0, last_contained_log_timestamp=123),
    SnapshotFooterRecord(version=0),
]


def test_the_quorum_s_messages_come_back() -> None:
    data = quorum_batch(MESSAGES, base_offset=40, leader_epoch=3, timestamp=99)
    (info,) = scan(data)
    assert info.is_control
    assert not info.is_transactional
    assert (info.base_offset, info.last_offset, info.leader_epoch) == (40, 44, 3)
    found = list(records(data, info))
    assert [parse_quorum_message(record) for record in found] == MESSAGES
    assert [control_type(record.key) for record in found] == [
        ControlType.LEADER_CHANGE,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
        ControlType.SNAPSHOT_HEADER,
        ControlType.SNAPSHOT_FOOTER,
    ]
    assert [parse_txn_marker(record) for record in found] == [None] * 5


def test_a_leader_change_has_kafka_s_bytes() -> None:
    data = quorum_batch([MESSAGES[0]], base_offset=0, leader_epoch=1, timestamp=0)
    (info,) = scan(data)
    (record,) = records(data, info)
    # version, leader, two voters with no tagged fields each, one granting voter, no tagged fields
    assert record.value == bytes.fromhex("0000 00000001 03 0000000100 0000000200 02 0000000100 00")


def test_a_marker_is_no_message_of_the_quorum() -> None:
    assert parse_quorum_message(Record(0, 0, control_key(ControlType.COMMIT), b"")) is None


def test_a_type_from_the_future_is_unknown() -> None:
    assert control_type(bytes([0, 0, 0, 99])) is ControlType.UNKNOWN
    assert control_type(bytes([0, 9, 0, 1, 5, 5])) is ControlType.COMMIT  # a later version of the key, with more in it
    assert parse_txn_marker(Record(0, 0, bytes([0, 0, 0, 99]), None)) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_a_key_that_says_nothing_is_invalid(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        control_type(key)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\1"])
def test_a_marker_that_says_nothing_is_invalid(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        parse_txn_marker(Record(0, 0, control_key(ControlType.ABORT), value))


def test_a_message_without_a_value_is_invalid() -> None:
    with pytest.raises(InvalidRecord):
        parse_quorum_message(Record(0, 0, control_key(ControlType.LEADER_CHANGE), None))
