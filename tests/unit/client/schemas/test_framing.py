"""Frames, byte by byte and against Confluent's own."""

from __future__ import annotations

import io
import uuid
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.schemas.framing import framed_by_guid, framed_by_id, unframed
from kavka.client.schemas.subjects import record_name, strategy_of, topic_name, topic_record_name

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry.common.serde import SchemaId

GUID = "89791762-2336-4186-9674-299b90a802e2"
INDEXES = st.lists(st.integers(0, 1 << 20), min_size=1, max_size=8)


def test_the_id_stands_in_front() -> None:
    assert framed_by_id(258) == b"\x00\x00\x00\x01\x02"
    frame = unframed("value", b"\x00\x00\x00\x01\x02rest", ())
    assert (frame.schema, frame.payload()) == (258, b"rest")


def test_the_guid_stands_in_a_header_of_the_key_or_the_value() -> None:
    said = framed_by_guid(GUID)
    assert said == b"\x01" + uuid.UUID(GUID).bytes
    headers = [("other", None), ("__value_schema_id", said)]
    frame = unframed("value", b"all of it", headers)
    assert (frame.schema, frame.payload()) == (GUID, b"all of it")
    with pytest.raises(ValueError, match="id of a schema"):
        unframed("key", b"all of it", headers)


@given(INDEXES, st.integers(0, (1 << 31) - 1), st.booleans())
def test_what_confluent_writes_is_read_and_the_other_way_round(indexes: list[int], id_: int, in_header: bool) -> None:
    theirs = SchemaId("PROTOBUF", id_, GUID, indexes)
    ours = framed_by_guid(GUID, indexes) if in_header else framed_by_id(id_, indexes)
    assert ours == (theirs.guid_to_bytes() if in_header else theirs.id_to_bytes())
    frame = unframed("key", b"m", [("__key_schema_id", ours)]) if in_header else unframed("key", ours + b"m", ())
    assert frame.indexed() == (tuple(indexes), b"m")
    again = SchemaId("PROTOBUF")
    again.from_bytes(io.BytesIO(ours))
    assert again.message_indexes == indexes


@given(st.binary(max_size=40))
def test_foreign_bytes_are_refused_and_nothing_else_happens(data: bytes) -> None:
    try:
        indexes, rest = unframed("value", data, ()).indexed()
    except ValueError:
        return
    assert data[0] in (0, 1)
    assert indexes
    assert data.endswith(rest)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00\x00", b"\x02\x00\x00\x00\x01", b"\x01" + bytes(15)])
def test_what_names_no_schema_is_said(data: bytes) -> None:
    with pytest.raises(ValueError, match="does not begin with the id of a schema"):
        unframed("value", data, ())


@pytest.mark.parametrize("data", [b"\x80", b"\xff\xff\xff\xff\xff\xff", b"\x01", b"\xfe\x0f", b"\x04\x02"])
def test_indexes_that_are_cut_short_or_too_many_are_said(data: bytes) -> None:
    with pytest.raises(ValueError, match="indexes"):
        unframed("value", framed_by_id(1) + data, ()).indexed()


def test_subjects_have_confluents_names() -> None:
    assert topic_name("t", "key", None) == "t-key"
    assert record_name("t", "key", "shop.Order") == "shop.Order"
    assert topic_record_name("t", "value", "shop.Order") == "t-shop.Order"
    assert strategy_of("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy") is topic_record_name
    assert strategy_of(topic_name) is topic_name
    with pytest.raises(ValueError, match="no name"):
        record_name("t", "value", None)
    with pytest.raises(ValueError, match="no subject name strategy"):
        strategy_of("Another")
