"""Batch headers and records, with the batch builders of aiokafka and kafka-python as witnesses."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

from kavka.kernels.layout import HEADER_SIZE, TRUNCATED
from kavka.model.errors import CorruptMessage, InvalidRecord
from kavka.records.batch import Record
from kavka.records.builder import build_batch

TIME = 1_700_000_000_000


def theirs(builder: Any = AioBuilder, *, count: int = 3, transactional: bool = False) -> bytes:
    batch = builder(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=123_456_789_012,
        producer_epoch=7,
        base_sequence=40,
        batch_size=1 << 20,
    )
    for offset in range(count):
        batch.append(offset, TIME + offset, b"key%d" % offset, b"value", [("name", b"content"), ("empty", None)])
    return bytes(batch.build())


BATCH = theirs()


def edited(data: bytes, at: int, form: str, value: int, *, fix_crc: bool = True) -> bytes:
    """The batch with another number in its header."""
    out = bytearray(data)
    struct.pack_into(form, out, at, value)
    if fix_crc:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


@pytest.mark.parametrize("builder", [AioBuilder, KafkaBuilder])
def test_the_header_of_another_client_s_batch_is_read(batches: Any, builder: Any) -> None:
    data = theirs(builder, transactional=True)
    (info,) = batches.scan(b"junk" + data, 4)
    assert (info.position, info.size) == (4, len(data))
    assert (info.base_offset, info.last_offset, info.count, info.magic) == (0, 2, 3, 2)
    assert (info.base_timestamp, info.max_timestamp) == (TIME, TIME + 2)
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (123_456_789_012, 7, 40)
    assert info.last_sequence == 42
    assert info.is_transactional
    assert not info.is_control
    assert not info.is_log_append_time
    assert not info.has_delete_horizon
    assert info.codec == 0
    assert info.crc == struct.unpack_from(">I", data, 17)[0]


def test_batches_are_read_one_after_the_other(batches: Any) -> None:
    infos = batches.scan(BATCH * 3)
    assert [info.position for info in infos] == [0, len(BATCH), 2 * len(BATCH)]
    assert batches.scan(BATCH * 3, len(BATCH), 2 * len(BATCH)) == batches.scan(b"x" * len(BATCH) + BATCH, len(BATCH))
    assert batches.scan(b"") == []


def test_a_cut_batch_is_corrupt_to_scan_and_the_end_to_scan_prefix(batches: Any) -> None:
    for cut in range(1, len(BATCH)):
        data = BATCH + BATCH[:cut]
        with pytest.raises(CorruptMessage):
            batches.scan(data)
        infos, valid, reason = batches.scan_prefix(data)
        assert (len(infos), valid, reason) == (1, len(BATCH), TRUNCATED)


def test_a_whole_buffer_has_no_reason_to_stop(batches: Any) -> None:
    assert batches.scan_prefix(BATCH * 2)[1:] == (2 * len(BATCH), None)


def test_every_changed_byte_under_the_crc_is_found(batches: Any) -> None:
    for at in range(17, len(BATCH)):
        data = bytearray(BATCH)
        data[at] ^= 1
        with pytest.raises(CorruptMessage, match="CRC"):
            batches.scan(data)
        assert len(batches.scan(data, check_crc=False)) == 1
        assert batches.accept(data) is None


@pytest.mark.parametrize("payload", [0, 1, 7, 8, 9, 900, 1023, 1024, 1025, 5000, 100_000])
def test_the_crc_is_right_at_any_length(batches: Any, payload: int) -> None:
    data = bytearray(BATCH[:HEADER_SIZE] + b"\xa5" * payload)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    assert batches.scan(data)[0].size == len(data)
    data[-1] ^= 1
    with pytest.raises(CorruptMessage):
        batches.scan(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_format_is_invalid(batches: Any, magic: int) -> None:
    with pytest.raises(InvalidRecord):
        batches.scan(edited(BATCH, 16, ">b", magic))


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_an_unknown_format_is_corrupt(batches: Any, magic: int) -> None:
    with pytest.raises(CorruptMessage):
        batches.scan(edited(BATCH, 16, ">b", magic))


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13, 14, 48])
def test_a_length_below_the_header_s_is_corrupt(batches: Any, length: int) -> None:
    with pytest.raises(CorruptMessage, match="size"):
        batches.scan(edited(BATCH, 8, ">i", length, fix_crc=False))


def test_a_length_beyond_the_data_is_a_truncated_batch(batches: Any) -> None:
    assert batches.scan_prefix(edited(BATCH, 8, ">i", (1 << 31) - 1))[2] == TRUNCATED


def test_the_sequence_wraps_after_the_largest_number(batches: Any) -> None:
    (info,) = batches.scan(edited(BATCH, 53, ">i", (1 << 31) - 2))
    assert info.last_sequence == 0
    (info,) = batches.scan(edited(BATCH, 53, ">i", (1 << 31) - 3))
    assert info.last_sequence == (1 << 31) - 1
    (info,) = batches.scan(edited(BATCH, 53, ">i", -1))
    assert info.last_sequence == -1


def test_an_offset_beyond_64_bits_wraps_as_in_kafka(batches: Any) -> None:
    info = batches.BatchInfo(base_offset=(1 << 63) - 1, last_offset_delta=2)
    assert info.last_offset == -(1 << 63) + 1


def test_the_attributes_are_told_apart(batches: Any) -> None:
    flags = ("is_log_append_time", "is_transactional", "is_control", "has_delete_horizon")
    for bit, flag in zip((8, 16, 32, 64), flags, strict=True):
        (info,) = batches.scan(edited(BATCH, 21, ">h", bit | 3))
        assert info.codec == 3
        assert [getattr(info, name) for name in flags] == [name == flag for name in flags]


def test_a_sound_batch_is_accepted(batches: Any) -> None:
    assert batches.accept(BATCH) == batches.scan(BATCH)[0]
    assert batches.accept(b"?" + BATCH + b"?", 1, 1 + len(BATCH)).position == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        BATCH[:-1],
        BATCH * 2,
        BATCH + b"\0",
        edited(BATCH, 0, ">q", 1),
        edited(BATCH, 57, ">i", 2),
        edited(BATCH, 57, ">i", 0),
        edited(BATCH, 57, ">i", -3),
        edited(BATCH, 23, ">i", -1),
        edited(BATCH, 23, ">i", (1 << 31) - 1),
        edited(edited(BATCH, 57, ">i", -(1 << 31)), 23, ">i", (1 << 31) - 1),
        edited(BATCH, 21, ">h", 0x20),
        edited(BATCH, 21, ">h", 0x08),
        edited(BATCH, 21, ">h", 5),
        edited(BATCH, 53, ">i", -1),
        edited(BATCH, 16, ">b", 1),
    ],
)
def test_anything_else_is_not_accepted(batches: Any, data: bytes) -> None:
    assert batches.accept(data) is None


def test_a_batch_is_accepted_up_to_a_size_and_a_time(batches: Any) -> None:
    assert batches.accept(BATCH, 0, -1, 0, batches.Limits(len(BATCH))) is not None
    assert batches.accept(BATCH, 0, -1, 0, batches.Limits(len(BATCH) - 1)) is None
    assert batches.accept(BATCH, 0, -1, TIME, batches.Limits(1 << 20, 2)) is not None
    assert batches.accept(BATCH, 0, -1, TIME, batches.Limits(1 << 20, 1)) is None
    assert batches.accept(BATCH, 0, -1, TIME, batches.Limits(1 << 20, (1 << 63) - 1)) is not None
    assert batches.accept(BATCH, 0, -1, TIME + 9, batches.Limits(1 << 20, 0, 9)) is not None
    assert batches.accept(BATCH, 0, -1, TIME + 9, batches.Limits(1 << 20, 0, 8)) is None


def test_a_header_that_says_something_else_than_the_records_is_not_accepted(batches: Any) -> None:
    for newest in (0, -1, TIME + 1, TIME + 3, (1 << 63) - 1):
        assert batches.accept(edited(BATCH, 35, ">q", newest)) is None
    assert batches.accept(edited(BATCH, 27, ">q", TIME + 1)) is None
    assert batches.accept(edited(edited(BATCH, 57, ">i", 4), 23, ">i", 3)) is None
    assert batches.accept(edited(edited(BATCH, 57, ">i", 2), 23, ">i", 1)) is None


def test_seventy_bytes_do_not_hold_two_thousand_million_records(batches: Any) -> None:
    claims = edited(edited(theirs(count=1), 57, ">i", (1 << 31) - 1), 23, ">i", (1 << 31) - 2)
    assert batches.accept(claims) is None


def test_keys_are_asked_for_where_they_are_needed(batches: Any) -> None:
    keyless = build_batch([Record(0, TIME, b"k", b""), Record(1, TIME, None, b"")])
    assert batches.accept(keyless, 0, -1, TIME, batches.Limits(1 << 20)) is not None
    assert batches.accept(keyless, 0, -1, TIME, batches.Limits(1 << 20, 0, 0, True)) is None
    assert batches.accept(BATCH, 0, -1, TIME, batches.Limits(1 << 20, 9, 9, True)) is not None


def test_of_a_compressed_batch_the_header_is_asked(batches: Any) -> None:
    assert batches.accept(edited(BATCH, 21, ">h", 3)).codec == 3


def test_a_batch_without_a_producer_id_needs_no_sequence(batches: Any) -> None:
    assert batches.accept(edited(edited(BATCH, 43, ">q", -1), 53, ">i", -1)) is not None


def test_a_patch_changes_offset_and_epoch_and_not_the_crc(batches: Any) -> None:
    data = bytearray(b"??" + BATCH)
    batches.patch(memoryview(data), 2, 1 << 40, 77)
    (info,) = batches.scan(data, 2)
    assert (info.base_offset, info.leader_epoch, info.last_offset) == (1 << 40, 77, (1 << 40) + 2)
    assert data[2 + 17 :] == BATCH[17:]


def test_a_patched_prefix_and_the_rest_are_the_patched_batch(batches: Any) -> None:
    buffer = b"??" + BATCH
    (info,) = batches.scan(buffer, 2)
    patched = bytearray(BATCH)
    batches.patch(patched, 0, 12345, 6)
    prefix = batches.patched_prefix(buffer, info, 12345, 6)
    assert prefix + BATCH[17:] == patched
    assert buffer == b"??" + BATCH


def test_log_append_time_rewrites_the_header_and_the_crc(batches: Any) -> None:
    data = bytearray(b"??" + BATCH + b"??")
    batches.set_log_append_time(data, 2, TIME + 999)
    (info,) = batches.scan(data, 2, len(data) - 2)
    assert info.is_log_append_time
    assert info.max_timestamp == TIME + 999
    assert info.base_timestamp == TIME
    assert {record[1] for record in batches.read_records(data, info, 2 + HEADER_SIZE, len(data) - 2)} == {TIME + 999}


def test_a_batch_that_is_not_there_cannot_be_patched(batches: Any) -> None:
    for position in (-1, 1, len(BATCH), 1 << 40):
        data = bytearray(BATCH[:17])
        with pytest.raises(CorruptMessage):
            batches.patch(data, position, 0, 0)
        with pytest.raises(CorruptMessage):
            batches.patched_prefix(data, batches.BatchInfo(position), 0, 0)
        with pytest.raises(CorruptMessage):
            batches.set_log_append_time(bytearray(BATCH), position, 0)
    with pytest.raises(CorruptMessage):
        batches.set_log_append_time(bytearray(BATCH[:-1]), 0, 0)
    with pytest.raises(CorruptMessage):
        batches.set_log_append_time(bytearray(edited(BATCH, 8, ">i", 20)), 0, 0)


def test_bytes_are_not_patched_in_place(batches: Any) -> None:
    with pytest.raises(TypeError):
        batches.patch(BATCH, 0, 0, 0)
    with pytest.raises(TypeError):
        batches.set_log_append_time(memoryview(BATCH), 0, 0)


@pytest.mark.parametrize(("pos", "end"), [(-1, -1), (0, len(BATCH) + 1), (5, 4)])
def test_a_range_outside_the_buffer_is_a_mistake_of_the_caller(batches: Any, pos: int, end: int) -> None:
    for call in (batches.scan, batches.scan_prefix, batches.accept):
        with pytest.raises(ValueError, match="no range"):
            call(BATCH, pos, end)
    with pytest.raises(ValueError, match="no range"):
        batches.read_records(BATCH, batches.BatchInfo(), pos, end)


def test_an_info_is_a_value(batches: Any) -> None:
    (info,) = batches.scan(BATCH)
    assert info == batches.scan(BATCH)[0]
    assert info != batches.scan(BATCH * 2)[1]
    assert info != "something else"
    assert hash(info) == hash(batches.BatchInfo(*info.fields()))
    assert pickle.loads(pickle.dumps(info)) == info
    assert "offsets=0-2" in repr(info)


@pytest.mark.parametrize("builder", [AioBuilder, KafkaBuilder])
def test_the_records_of_another_client_s_batch_are_read(batches: Any, builder: Any) -> None:
    data = theirs(builder)
    (info,) = batches.scan(data)
    headers = (("name", b"content"), ("empty", None))
    assert batches.read_records(data, info, HEADER_SIZE) == [
        (offset, TIME + offset, b"key%d" % offset, b"value", headers) for offset in range(3)
    ]


def test_a_record_is_encoded_as_other_clients_do(batches: Any) -> None:
    records = b"".join(
        batches.encode_record(i, i, b"key%d" % i, b"value", [("name", b"content"), ("empty", None)]) for i in range(3)
    )
    assert records == BATCH[HEADER_SIZE:]


@pytest.mark.parametrize("empty", [None, b""])
def test_null_is_not_empty(batches: Any, empty: bytes | None) -> None:
    record = batches.encode_record(0, 0, empty, empty, [("h", empty)])
    info = batches.BatchInfo(count=1, base_timestamp=0)
    assert batches.read_records(record, info) == [(0, 0, empty, empty, (("h", empty),))]


def test_any_buffer_is_a_key_or_a_value(batches: Any) -> None:
    assert batches.encode_record(0, 0, bytearray(b"k"), memoryview(b"v")) == batches.encode_record(0, 0, b"k", b"v")


def broken_records() -> list[tuple[str, str, int]]:
    good = "10 00 00 00 02 6b 02 76 00"  # length 8: attributes, 0, 0, "k", "v", no headers
    return [
        ("nothing where a record should be", "", 1),
        ("a record too many", good, 0),
        ("a record too few", good, 2),
        ("bytes behind the last record", good + "00", 1),
        ("a length of zero", "00" + good[2:], 1),
        ("a negative length", "01" + good[2:], 1),
        ("a length beyond the payload", "7e" + good[2:], 1),
        ("a length shorter than the fields", "0e" + good[2:], 1),
        ("a length longer than the fields", "12" + good[2:] + "00", 1),
        ("a key beyond the record", "10 00 00 00 7e 6b 02 76 00", 1),
        ("a negative count of headers", "10 00 00 00 02 6b 02 76 01", 1),
        ("more headers than bytes", "10 00 00 00 02 6b 02 76 7e", 1),
        ("a header with a null name", "14 00 00 00 02 6b 02 76 02 01 01", 1),
        ("a header name that is not UTF-8", "16 00 00 00 02 6b 02 76 02 02 ff 01", 1),
        ("an overlong length", "90 80 80 80 80 00" + good[2:], 1),
        ("a length of 33 bits", "90 80 80 80 10" + good[2:], 1),
        ("a timestamp of 65 bits", "22 00" + "ff" * 9 + "02 00 02 6b 02 76 00", 1),
        ("a negative count of records", good, -1),
        ("only the beginning of a record", good[:-6], 1),
    ]


@pytest.mark.parametrize(
    ("payload", "count"), [row[1:] for row in broken_records()], ids=[r[0] for r in broken_records()]
)
def test_records_that_are_not_as_declared_are_invalid(batches: Any, payload: str, count: int) -> None:
    with pytest.raises(InvalidRecord):
        batches.read_records(bytes.fromhex(payload), batches.BatchInfo(count=count))


def test_the_good_record_of_the_broken_ones_is_good(batches: Any) -> None:
    record = bytes.fromhex("10 00 00 00 02 6b 02 76 00")
    assert batches.read_records(record, batches.BatchInfo(count=1, base_timestamp=5)) == [(0, 5, b"k", b"v", ())]
