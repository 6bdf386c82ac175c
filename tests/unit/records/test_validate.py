"""What a client may append: Kafka's rules one by one, and its error for each."""

from __future__ import annotations

import struct
from typing import Any

import lz4.frame
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.kernels.batches import scan
from kavka.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from kavka.records import validate as validation
from kavka.records.batch import Record, records
from kavka.records.builder import build_batch
from kavka.records.control import txn_marker_batch
from kavka.records.validate import ProduceRules, RecordsRejected, TimestampsRejected
from kavka.wire.compression import CODECS, NAMES

NOW = 1_700_000_000_000
HOUR = 3_600_000
RULES: dict[str, Any] = {
    "max_message_bytes": 1_048_588,
    "timestamp_type": "CreateTime",
    "compression_type": "producer",
    "compact": False,
    "before_max_ms": (1 << 63) - 1,
    "after_max_ms": HOUR,
}
ROWS = [Record(0, NOW - 5, b"a", b"1"), Record(1, NOW, b"b", None, (("h", b"x"),)), Record(2, NOW - 9, b"c", b"3")]
BATCH = build_batch(ROWS, producer_id=8, producer_epoch=0, base_sequence=3)


def validate(data: bytes | None, now_ms: int = NOW, api_version: int = 13, **rules: Any) -> Any:
    return validation.validate(data, ProduceRules(**{**RULES, **rules}), now_ms, api_version)


def edited(data: bytes, at: int, form: str, value: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(form, out, at, value)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


@pytest.mark.parametrize("codec", CODECS.values())
def test_a_sound_batch_is_appended_as_it_came(codec: int) -> None:
    batch = build_batch(ROWS, codec=codec, producer_id=8, producer_epoch=0, base_sequence=3)
    data, infos = validate(batch)
    assert data is batch
    assert infos == scan(batch)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, InvalidRecord),
        (b"", InvalidRecord),
        (BATCH[:-1], InvalidRecord),  # no whole batch is no batch
        (BATCH[:11], InvalidRecord),
        (BATCH + BATCH, InvalidRecord),
        (edited(BATCH, 16, ">b", 1), InvalidRecord),
        (edited(BATCH, 16, ">b", 3), CorruptMessage),
        (edited(BATCH, 8, ">i", 13), CorruptMessage),
        (edited(BATCH, 8, ">i", 48), CorruptMessage),
        (BATCH[:-1] + b"?", CorruptMessage),
        (BATCH + edited(BATCH, 16, ">b", 9), CorruptMessage),
        (edited(BATCH, 0, ">q", 5), InvalidRecord),
        (edited(BATCH, 57, ">i", 2), InvalidRecord),
        (edited(BATCH, 57, ">i", 0), InvalidRecord),
        (edited(BATCH, 23, ">i", -1), InvalidRecord),
        (edited(BATCH, 21, ">h", 0x20), InvalidRecord),
        (edited(BATCH, 53, ">i", -1), InvalidRecord),
        (edited(BATCH, 21, ">h", 5), InvalidRecord),
        (
            txn_marker_batch(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0),
            InvalidRecord,
        ),
    ],
)
def test_every_broken_rule_has_kafka_s_error(data: bytes | None, error: type[KafkaError]) -> None:
    with pytest.raises(KafkaError) as raised:
        validate(data)
    assert type(raised.value) is error


def test_an_incomplete_batch_after_the_batch_is_dropped() -> None:
    for tail in (b"\0", BATCH[:30], BATCH[:-1]):
        data, (info,) = validate(BATCH + tail)
        assert data == BATCH
        assert info.size == len(BATCH)


def test_a_batch_may_be_as_large_as_allowed_and_no_larger() -> None:
    assert validate(BATCH, max_message_bytes=len(BATCH))[0] == BATCH
    with pytest.raises(MessageTooLarge):
        validate(BATCH, max_message_bytes=len(BATCH) - 1)


def test_too_large_is_told_before_corrupt_and_a_wrong_offset_before_both() -> None:
    corrupt = BATCH[:-1] + b"?"
    with pytest.raises(MessageTooLarge):
        validate(corrupt, max_message_bytes=10)
    with pytest.raises(InvalidRecord):
        validate(b"\0\0\0\0\0\0\0\1" + corrupt[8:], max_message_bytes=10)


def test_zstd_needs_produce_version_7() -> None:
    batch = build_batch(ROWS, codec=4)
    assert validate(batch, api_version=7)[0] == batch
    with pytest.raises(UnsupportedCompressionType):
        validate(batch, api_version=6)
    with pytest.raises(UnsupportedCompressionType):
        validate(batch + b"tail", api_version=6)


@pytest.mark.parametrize("source", CODECS.values())
@pytest.mark.parametrize("target", ["uncompressed", *NAMES[1:]])
def test_a_topic_s_codec_is_what_its_batches_get(source: int, target: str) -> None:
    batch = build_batch(ROWS, codec=source, producer_id=8, producer_epoch=1, base_sequence=3, transactional=True)
    data, (info,) = validate(batch, compression_type=target)
    assert NAMES[info.codec] == target.replace("uncompressed", "none")
    assert list(records(data, info)) == ROWS
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.count) == (8, 1, 3, 3)
    assert (info.base_offset, info.last_offset, info.max_timestamp, info.is_transactional) == (0, 2, NOW, True)
    assert scan(data) == [info]
    if NAMES[source] == target:
        assert data is batch


def test_another_codec_may_make_a_batch_too_large() -> None:
    batch = build_batch([Record(0, NOW, b"k", bytes(5000))], codec=1)
    with pytest.raises(MessageTooLarge):
        validate(batch, compression_type="uncompressed", max_message_bytes=1000)


def test_records_that_cannot_be_decoded_are_invalid_when_someone_must() -> None:
    bad = edited(BATCH, 21, ">h", 4)  # says zstd, holds none
    assert validate(bad)[0] == bad
    for rules in ({"compact": True}, {"compression_type": "gzip"}):
        with pytest.raises(InvalidRecord):
            validate(bad, **rules)


def test_linked_lz4_blocks_are_invalid() -> None:
    batch = build_batch(ROWS, codec=3)
    linked = batch[:61] + lz4.frame.compress(bytes(200_000), block_linked=True)
    with pytest.raises(InvalidRecord, match="lz4"):
        validate(edited(linked, 8, ">i", len(linked) - 12))


@pytest.mark.parametrize("codec", CODECS.values())
def test_log_append_time_is_the_broker_s(codec: int) -> None:
    batch = build_batch([row._replace(timestamp=1) for row in ROWS], codec=codec)
    data, (info,) = validate(batch, timestamp_type="LogAppendTime", before_max_ms=0)
    assert info.is_log_append_time
    assert scan(data) == [info]
    assert [record.timestamp for record in records(data, info)] == [NOW] * 3
    assert scan(batch)[0].max_timestamp == 1  # what the client sent is untouched


def test_log_append_time_with_another_codec_is_the_broker_s_too() -> None:
    data, (info,) = validate(BATCH, timestamp_type="LogAppendTime", compression_type="lz4", now_ms=NOW + 7)
    assert info.is_log_append_time
    assert [record.timestamp for record in records(data, info)] == [NOW + 7] * 3


def test_a_producer_may_not_claim_log_append_time() -> None:
    claimed = build_batch(ROWS, log_append_time=NOW)
    with pytest.raises(InvalidTimestamp):
        validate(claimed, timestamp_type="LogAppendTime")
    with pytest.raises(InvalidTimestamp):
        validate(build_batch(ROWS, log_append_time=-1))


def test_on_a_topic_with_create_time_such_a_claim_is_taken_back() -> None:
    data, (info,) = validate(build_batch(ROWS, log_append_time=NOW))
    assert not info.is_log_append_time
    assert info.max_timestamp == NOW
    assert scan(data) == [info]


@pytest.mark.parametrize("codec", [0, 4])
def test_a_timestamp_too_far_ahead_is_rejected_and_named(codec: int) -> None:
    rows = [ROWS[0], ROWS[1]._replace(timestamp=NOW + HOUR + 1), ROWS[2]]
    batch = build_batch(rows, codec=codec)
    with pytest.raises(TimestampsRejected) as raised:
        validate(batch)
    assert raised.value.code == 32
    assert [index for index, _ in raised.value.record_errors] == [1]
    assert validate(batch, now_ms=NOW + 1)[0] == batch
    assert validate(batch, timestamp_type="LogAppendTime")[1][0].max_timestamp == NOW


def test_a_timestamp_too_old_is_rejected_wherever_it_is() -> None:
    rows = [Record(0, NOW, b"a", b""), Record(1, NOW - HOUR - 1, b"b", b""), Record(2, NOW, b"c", b"")]
    with pytest.raises(TimestampsRejected) as raised:
        validate(build_batch(rows), before_max_ms=HOUR)
    assert [index for index, _ in raised.value.record_errors] == [1]
    assert validate(build_batch(rows), before_max_ms=HOUR + 1)[0] == build_batch(rows)


def test_no_timestamp_has_no_bounds() -> None:
    batch = build_batch([Record(0, -1, b"a", b"")])
    assert validate(batch, before_max_ms=0, after_max_ms=0)[0] == batch


def test_a_header_that_lies_about_the_newest_record_is_put_right() -> None:
    lying = edited(BATCH, 35, ">q", NOW + 100 * HOUR)
    data, (info,) = validate(lying)
    assert info.max_timestamp == NOW
    assert scan(data) == [info]
    assert list(records(data, info)) == ROWS


@pytest.mark.parametrize("codec", [0, 2])
def test_a_compacted_topic_wants_keys(codec: int) -> None:
    batch = build_batch([ROWS[0], ROWS[1]._replace(key=None), ROWS[2]._replace(key=None)], codec=codec)
    assert validate(batch)[0] == batch
    with pytest.raises(RecordsRejected) as raised:
        validate(batch, compact=True)
    assert raised.value.code == 87
    assert [index for index, _ in raised.value.record_errors] == [1, 2]
    sound = build_batch(ROWS, codec=codec)
    assert validate(sound, compact=True)[0] == sound


def test_a_bad_timestamp_among_missing_keys_names_the_error() -> None:
    rows = [Record(0, NOW, None, b""), Record(1, NOW + 2 * HOUR, b"k", b"")]
    with pytest.raises(TimestampsRejected) as raised:
        validate(build_batch(rows), compact=True)
    assert [index for index, _ in raised.value.record_errors] == [0, 1]


@given(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([{}, {"compression_type": "lz4"}, {"before_max_ms": 5}, {"after_max_ms": (1 << 63) - 1}]),
)
def test_no_timestamp_in_a_header_leads_astray(base: int, newest: int, rules: dict[str, Any]) -> None:
    try:
        found, infos = validate(edited(edited(BATCH, 27, ">q", base), 35, ">q", newest), **rules)
    except InvalidTimestamp:
        return
    assert scan(found) == infos
    assert len(list(records(found, infos[0]))) == 3


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=120) | st.tuples(st.integers(0, len(BATCH) - 1), st.integers(0, 255), st.booleans()),
    st.sampled_from([{}, {"compact": True}, {"compression_type": "lz4"}, {"timestamp_type": "LogAppendTime"}]),
)
def test_whatever_is_sent_is_appended_soundly_or_refused_in_kafka_s_words(sent: Any, rules: dict[str, Any]) -> None:
    data = sent
    if isinstance(sent, tuple):
        at, byte, right_crc = sent
        out = bytearray(BATCH)
        out[at] = byte
        if right_crc:
            struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
        data = bytes(out)
    try:
        found, infos = validate(data, **rules)
    except KafkaError:
        return
    assert scan(found) == infos
