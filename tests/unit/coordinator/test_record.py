"""The bytes of the records in `__consumer_offsets`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.classic.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kavka.coordinator.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    CurrentAssignmentTopic,
)
from kavka.coordinator.kinds import codec_of
from kavka.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue
from kavka.coordinator.record import Record, RecordCodec, Unknown
from kavka.coordinator.txn.codec import CODEC as TRANSACTIONS
from kavka.model.types import Uuid

CODEC = codec_of()
TOPIC = Uuid(b"\x07" * 16)
OFFSET = Record(
    OffsetCommitKey(group="g", topic="t", partition=3),
    OffsetCommitValue(offset=7, leader_epoch=2, metadata="why", commit_timestamp=5, topic_id=TOPIC),
    4,
)


def member(classic: ClassicMemberMetadata | None) -> Record:
    return Record(
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=["a", "b"],
            subscribed_topic_regex="",
            server_assignor=None,
            classic_member_metadata=classic,
        ),
    )


@pytest.mark.parametrize(
    "record",
    [
        OFFSET,
        OFFSET._replace(version=3, value=OffsetCommitValue(offset=7, leader_epoch=2, metadata="", commit_timestamp=5)),
        Record(OFFSET.key, OffsetCommitValue(offset=7, metadata="", commit_timestamp=5, expire_timestamp=9), 1),
        Record(OFFSET.key),
        Record(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(
                protocol_type="consumer",
                generation=4,
                protocol="range",
                leader="m",
                current_state_timestamp=8,
                members=[
                    MemberMetadata(
                        member_id="m",
                        group_instance_id="i",
                        client_id="c",
                        client_host="/h",
                        rebalance_timeout=1,
                        session_timeout=2,
                        subscription=b"s",
                        assignment=b"a",
                    )
                ],
            ),
            3,
        ),
        Record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3, metadata_hash=-4)),
        member(None),
        member(
            ClassicMemberMetadata(session_timeout_ms=6, supported_protocols=[ClassicProtocol(name="x", metadata=b"y")])
        ),
        Record(
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=3,
                previous_member_epoch=2,
                state=1,
                assigned_partitions=[
                    CurrentAssignmentTopic(topic_id=TOPIC, partitions=[1, 2], assignment_epochs=[3, 2])
                ],
                partitions_pending_revocation=[],
            ),
        ),
    ],
    ids=lambda record: type(record.key).__name__,
)
def test_what_is_written_is_what_is_read(record):
    assert CODEC.decode(*CODEC.encode(record)) == record


def test_a_key_starts_with_its_type_and_a_value_with_its_version():
    key, value = CODEC.encode(OFFSET)
    assert key == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\3"
    assert value is not None
    assert value[:2] == b"\0\4"
    assert value[2:14] == (7).to_bytes(8) + (2).to_bytes(4)


def test_a_forgotten_thing_has_no_value():
    assert CODEC.encode(Record(OFFSET.key))[1] is None


def test_a_member_of_the_consumer_protocol_says_that_it_is_no_classic_one():
    # Kafka takes the field for an empty struct, thus the member for a classic one, when the null is left out
    _, value = CODEC.encode(member(None))
    assert value is not None
    assert value.endswith(b"\1\0\1\0")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, "without a key"),
        (b"\0", None, "without a key"),
        (b"\0\x63", b"\0\0", "unknown type 99"),
        (b"\0\x12\0\1g", b"\0\0", "unknown type 18"),
        (b"\0\3\0\1g", b"\0", "has no version"),
        (b"\0\3\0\1g", b"\0\5", "not 5"),
        (b"\0\3\0\1g", b"\xff\xff", "not -1"),
        (b"\0\3\0\x09g", b"\0\0", "cannot be read"),
        (b"\0\3\0\1g", b"\0\0\0", "cannot be read"),
        (b"\0\3\0\1\xff", b"\0\0\0", "cannot be read"),
    ],
)
def test_what_is_no_known_record_is_told_apart(key, value, reason):
    found = CODEC.decode(key, value)
    assert isinstance(found, Unknown)
    assert reason in found.reason


def test_every_kind_of_record_has_its_classes():
    for kind, (key, value) in CODEC.classes.items():
        assert (key.__api__.key, value.__api__.key) == (kind, kind)


@given(st.sampled_from(sorted(CODEC.classes)), st.binary(max_size=60), st.binary(max_size=60) | st.none())
def test_no_bytes_make_reading_fail(kind, key, value):
    assert isinstance(CODEC.decode(kind.to_bytes(2) + key, value), Record | Unknown)


def test_a_topic_has_records_of_its_own():
    numbers = {0: "LegacyOffsetCommitKey", 1: "OffsetCommitKey"}
    assert {kind: CODEC.classes[kind][0].__name__ for kind in numbers} == numbers
    assert TRANSACTIONS.classes[0][0].__name__ == "TransactionLogKey"
    with pytest.raises(KeyError):
        TRANSACTIONS.encode(OFFSET)
    with pytest.raises(ValueError, match="both of type 1"):
        RecordCodec([CODEC.classes[1], CODEC.classes[1]])
