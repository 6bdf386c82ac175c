"""The records of the metadata log: keys, bytes, and that all are found."""

from __future__ import annotations

import pytest

from kavka.metadata.records import RECORDS, decode_record, encode_record, record_class
from kavka.metadata.records.settings import FeatureLevelRecord
from kavka.metadata.records.topics import PartitionChangeRecord, TopicRecord
from kavka.metadata.records.transactions import NoOpRecord
from kavka.model.errors import MalformedMessage
from kavka.model.types import Uuid
from kavka.protocol.schema import declared

TOPIC_ID = Uuid(bytes(range(16)))


@pytest.mark.parametrize("key", sorted(RECORDS))
def test_every_key_leads_to_the_class_that_declares_it(key: int) -> None:
    cls = record_class(key)
    assert declared(cls).key == key
    assert cls.__name__ == RECORDS[key][1]


def test_a_topic_record_as_kafka_writes_it() -> None:
    encoded = encode_record(TopicRecord(name="orders", topic_id=TOPIC_ID), 0)
    assert encoded == bytes.fromhex("01 02 00 07 6f7264657273") + TOPIC_ID + b"\0"
    assert decode_record(encoded) == TopicRecord(name="orders", topic_id=TOPIC_ID)


def test_a_partition_change_says_only_what_changes() -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=3, isr=[3, 4])
    encoded = encode_record(change, 0)
    assert encoded == bytes.fromhex("01 05 00 00000001") + TOPIC_ID + bytes.fromhex(
        "02 00 09 03 00000003 00000004 01 04 00000003"
    )
    assert decode_record(encoded) == change


def test_records_of_every_size_survive() -> None:
    for record in (FeatureLevelRecord(name="metadata.version", feature_level=29), NoOpRecord()):
        assert decode_record(encode_record(record, 0)) == record


def test_a_key_that_no_record_has_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="no metadata record with key 6"):
        decode_record(b"\1\6\0\0")
