"""What a client may append: Kafka's rules one by one, and its error for each."""

from __future__ import annotations

import struct
from typing import Any

import lz4.frame
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.kernels.batches import encode_record, scan
from kavka.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnknownServerError,
    UnsupportedCompressionType,
)
from kavka.records import validate as validation
from kavka.records.batch import Record, records
from kavka.records.builder import build_batch
from kavka.records.control import txn_marker_batch
from kavka.records.rejections import RecordsRejected, TimestampsRejected
from kavka.records.validate import ProduceRules, Validation
from kavka.wire.compression import CODECS, NAMES, compress

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
        (edited(BATCH, 21, ">h", 5), UnknownServerError),
        (edited(edited(BATCH, 57, ">i", 4), 23, ">i", 3), InvalidRecord),  # one record less than it says
        (edited(edited(BATCH, 57, ">i", 2), 23, ">i", 1), InvalidRecord),
        (edited(edited(BATCH, 57, ">i", (1 << 31) - 1), 23, ">i", (1 << 31) - 2), InvalidRecord),
        (edited(BATCH[:61] + bytes(len(BATCH) - 61), 35, ">q", 0), InvalidRecord),
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


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("rules", [{}, {"compact": True}, {"compression_type": "gzip"}])
def test_what_does_not_decompress_is_refused_as_kafka_does(codec: int, rules: dict[str, Any]) -> None:
    with pytest.raises(UnknownServerError):
        validate(edited(BATCH, 21, ">h", codec), **rules)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_compressed_data_that_ends_early_is_refused(codec: int) -> None:
    batch = build_batch(ROWS, codec=codec)
    for cut in (1, 2, 5):
        with pytest.raises(UnknownServerError):
            validate(edited(batch[:-cut], 8, ">i", len(batch) - cut - 12))


def test_linked_lz4_blocks_are_refused() -> None:
    batch = build_batch(ROWS, codec=3)
    linked = batch[:61] + lz4.frame.compress(bytes(200_000), block_linked=True)
    with pytest.raises(UnknownServerError, match="lz4"):
        validate(edited(linked, 8, ">i", len(linked) - 12))


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("newest", [0, 7, NOW + 100 * HOUR, (1 << 63) - 1, -(1 << 63)])
def test_the_newest_record_says_what_the_newest_record_is(codec: int, newest: int) -> None:
    data, (info,) = validate(edited(build_batch(ROWS, codec=codec), 35, ">q", newest))
    assert info.max_timestamp == NOW
    assert scan(data) == [info]
    assert list(records(data, info)) == ROWS


@pytest.mark.parametrize("codec", CODECS.values())
def test_records_without_a_time_under_a_header_with_one_have_none(codec: int) -> None:
    sent = build_batch([row._replace(timestamp=-1) for row in ROWS], codec=codec)
    data, (info,) = validate(edited(sent, 35, ">q", 0))  # as librdkafka sends what is to have none
    assert info.max_timestamp == -1
    assert scan(data) == [info]
    assert {record.timestamp for record in records(data, info)} == {-1}


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("off", [-1, 1])
def test_more_or_fewer_records_than_the_header_says_are_refused(codec: int, off: int) -> None:
    batch = build_batch(ROWS, codec=codec)
    with pytest.raises(InvalidRecord):
        validate(edited(edited(batch, 57, ">i", 3 + off), 23, ">i", 2 + off))


def misnumbered(codec: int, offsets: tuple[int, ...] = (0, 0, 5)) -> bytes:
    payload = b"".join(encode_record(delta, 0, b"k", b"v") for delta in offsets)
    batch = build_batch(ROWS)[:61] + compress(codec, payload)
    batch = edited(batch, 8, ">i", len(batch) - 12)
    return edited(edited(edited(batch, 21, ">h", codec), 27, ">q", NOW), 35, ">q", NOW)


def test_offsets_in_an_uncompressed_batch_are_the_client_s_as_in_kafka() -> None:
    assert validate(misnumbered(0))[0] == misnumbered(0)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_offsets_in_a_compressed_batch_are_counted_or_it_is_refused_as_in_kafka(codec: int) -> None:
    with pytest.raises(UnknownServerError):
        validate(misnumbered(codec))


@pytest.mark.parametrize("codec", CODECS.values())
def test_with_another_codec_the_records_are_numbered(codec: int) -> None:
    target = "gzip" if codec != 1 else "lz4"
    data, (info,) = validate(misnumbered(codec), compression_type=target)
    assert [record.offset for record in records(data, info)] == [0, 1, 2]


def test_a_bomb_is_refused_after_what_may_be_decompressed() -> None:
    bomb = build_batch([Record(0, NOW, b"k", bytes(17 << 20))], codec=4)
    assert len(bomb) < 16 << 10
    with pytest.raises(MessageTooLarge):  # more than 16 MiB, and a thousand times what was sent
        validate(bomb)
    assert validate(build_batch([Record(0, NOW, b"k", bytes(1 << 20))], codec=4))
    with pytest.raises(MessageTooLarge):
        validate(build_batch([Record(0, NOW, b"k", bytes(5000))], codec=4), max_decompressed_bytes=4000)


def test_what_decompresses_to_much_is_judged_in_parts() -> None:
    batch = build_batch([Record(0, NOW, b"k", bytes(4 << 20))], codec=1)
    validation = validation_of(batch)
    parts = 0
    while not validation.done:
        assert validation.run(1 << 20) in (0, *range(1 << 20))
        parts += 1
    assert 4 <= parts <= 6
    assert validation.result()[0] == batch


@given(st.data())
def test_in_parts_or_at_once_the_judgement_is_the_same(data: Any) -> None:
    codec = data.draw(st.sampled_from(sorted(CODECS.values())))
    batch = build_batch(ROWS, codec=codec)
    at = data.draw(st.integers(21, len(batch) - 1))
    sent = edited(batch, at, ">B", data.draw(st.integers(0, 255)))
    rules = data.draw(st.sampled_from([{}, {"compact": True}, {"compression_type": "zstd"}]))
    validation = validation_of(sent, **rules)
    while not validation.done:
        validation.run(1)
    at_once = outcome(lambda: validate(sent, **rules))
    assert outcome(validation.result) == at_once


def validation_of(data: bytes, **rules: Any) -> Validation:
    return Validation(data, ProduceRules(**{**RULES, **rules}), NOW)


def outcome(call: Any) -> Any:
    try:
        data, infos = call()
    except KafkaError as error:
        return type(error)
    return bytes(data), infos


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
    except UnknownServerError:
        assert "compression_type" in rules  # Kafka writes no negative timestamps anew
        return
    assert scan(found) == infos
    times = [record.timestamp for record in records(found, infos[0])]
    assert len(times) == 3
    assert infos[0].max_timestamp == max(-1, *times)


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
