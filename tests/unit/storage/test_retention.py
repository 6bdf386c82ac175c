from __future__ import annotations

import os
import struct

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.model.errors import KafkaError
from kavka.records.batch import Record
from kavka.records.builder import build_batch
from kavka.records.validate import ProduceRules, validate
from kavka.storage.disk import RealDisk

NOW = 1_700_000_000_000


def fill(kit, segments, **config):
    """Segments of one batch each, an hour apart, and an empty active one."""
    size = len(kit.batch())
    kit.create(segment_bytes=size, **config)
    for number in range(segments):
        kit.append(timestamp=NOW + number * 3_600_000)
    kit.log.roll(NOW)
    return size


def kept(kit, now, high_watermark=None):
    end = kit.log.log_end_offset
    kit.log.delete_old_segments(now, end if high_watermark is None else high_watermark)
    return kit.bases()


def test_segments_whose_newest_record_is_too_old_go(kit):
    fill(kit, 5, retention_ms=3_600_000)
    assert kept(kit, NOW + 3_600_000) == [0, 1, 2, 3, 4, 5]
    assert kept(kit, NOW + 3 * 3_600_000 + 1) == [2 + 1, 4, 5]
    assert kit.log.log_start_offset == 3
    assert kit.offsets() == [3, 4]


def test_an_unlimited_age_keeps_all(kit):
    fill(kit, 3, retention_ms=-1)
    assert kept(kit, NOW * 2) == [0, 1, 2, 3]


def test_without_timestamps_the_files_age_counts(kit):
    size = len(kit.batch())
    kit.create(segment_bytes=size, retention_ms=1000)
    kit.append(timestamp=-1)
    kit.append(timestamp=-1)
    path = kit.log.segments[0].file.path
    os.utime(path, (1, 1))
    now = int(os.stat(kit.log.segments[1].file.path).st_mtime * 1000)
    assert kept(kit, now) == [1]


def with_newest(batch, newest):
    """The batch with another largest timestamp in its header."""
    out = bytearray(batch)
    struct.pack_into(">q", out, 35, newest)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


@pytest.mark.parametrize("codec", range(5))
def test_records_without_a_time_are_not_deleted_for_what_their_header_says(kit, codec):
    week = 7 * 24 * 3_600_000
    kit.create(retention_ms=week)
    rows = [Record(number, -1, b"k", b"v") for number in range(100)]
    sent = with_newest(build_batch(rows, codec=codec), 0)  # as librdkafka may
    kit.append(bytes(validate(sent, ProduceRules(max_message_bytes=1 << 20), NOW)[0]))
    kit.log.roll(NOW)
    written = int(os.stat(kit.log.segments[0].file.path).st_mtime * 1000)
    assert kept(kit, written + 60_000) == [0, 100]
    assert kept(kit, written + week + 60_000) == [100]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4), st.integers(0, 2 * NOW), st.integers(-(1 << 63), (1 << 63) - 1))
def test_no_header_makes_retention_or_a_roll_see_another_time_than_the_records_have(kit, codec, timestamp, newest):
    kit.path = f"{kit.root}/orders-{codec}{timestamp}{newest}"
    kit.create()
    for said in (newest, timestamp):
        sent = with_newest(kit.batch(count=2, timestamp=timestamp, codec=codec), said)
        try:
            data, _ = validate(sent, ProduceRules(max_message_bytes=1 << 20), timestamp)
        except KafkaError as error:
            raise AssertionError("only the header's time is wrong") from error
        kit.append(bytes(data))
    assert len(kit.log.segments) == 1
    assert kit.log.segments[0].largest_timestamp_ms == timestamp + 1
    assert kit.newest().timestamp == timestamp + 1
    assert kit.first_at(timestamp + 1).offset == 1
    assert kit.first_at(timestamp + 2) is None


def test_size_retention_keeps_at_least_what_is_configured(kit):
    size = fill(kit, 5, retention_ms=-1)
    kit.log.config = kit.config = __import__("dataclasses").replace(kit.config, retention_bytes=2 * size + 1)
    assert kept(kit, NOW) == [2, 3, 4, 5]  # three segments: two would be too few
    assert kept(kit, NOW) == [2, 3, 4, 5]


def test_nothing_at_or_above_the_high_watermark_goes(kit):
    fill(kit, 5, retention_ms=0)
    assert kept(kit, NOW * 2, high_watermark=3) == [3, 4, 5]
    assert kit.log.log_start_offset == 3


def test_the_active_segment_goes_too_once_it_is_old(kit):
    kit.create(retention_ms=1000)
    kit.append(count=5)
    assert kept(kit, NOW + 5000) == [5]
    assert (kit.log.log_start_offset, kit.log.log_end_offset) == (5, 5)
    assert kit.append().first_offset == 5


def test_an_empty_log_stays_as_it_is(kit):
    kit.create(retention_ms=0, retention_bytes=0)
    segment = kit.log.segments[0]
    assert kit.log.delete_old_segments(NOW * 2, 0) == []
    assert kit.log.segments == [segment]


def test_deleted_records_take_their_segments_along_even_if_only_compacting(kit):
    fill(kit, 5, delete=False, compact=True, retention_ms=0)
    assert kept(kit, NOW * 2) == [0, 1, 2, 3, 4, 5]
    kit.log.advance_log_start_offset(2, 5)
    expired = kit.log.delete_old_segments(NOW * 2, 5)
    assert [item.segment.base_offset for item in expired] == [0, 1]
    assert "log start offset 2" in expired[0].reason
    assert kit.bases() == [2, 3, 4, 5]


def test_files_are_renamed_at_once_and_removed_after_the_delay(kit):
    fill(kit, 2, retention_ms=0, file_delete_delay_ms=60_000)
    now = NOW + 100 * 3_600_000
    kept(kit, now)
    assert f"{0:020d}.log.deleted" in kit.names()
    assert f"{0:020d}.index.deleted" in kit.names()
    assert kit.log.purge(now + 59_999) == 0
    assert kit.log.purge(now + 60_000) == 2
    assert not any(name.endswith(".deleted") for name in kit.names())


def test_a_segment_that_is_being_sent_stays_readable(kit):
    fill(kit, 2, retention_ms=0)
    piece = kit.log.read(0, 1 << 20, 2)
    piece.file.pin()
    kept(kit, NOW * 2)
    kit.log.purge(NOW * 3)
    assert len(os.pread(piece.file.fileno(), piece.length, piece.position)) == piece.length
    piece.file.unpin()


def test_a_slice_read_before_the_rename_can_still_be_pinned(kit):
    fill(kit, 2, retention_ms=0)
    piece = kit.log.read(0, 1 << 20, 2)
    piece.file.close()
    kept(kit, NOW * 2)
    piece.file.pin()
    assert len(os.pread(piece.file.fileno(), piece.length, piece.position)) == piece.length
    piece.file.unpin()


def test_snapshots_of_removed_segments_go_with_them(kit):
    size = len(kit.batch(pid=1))
    kit.create(segment_bytes=size, retention_ms=0)
    for sequence in range(4):
        kit.append(pid=1, seq=sequence)
    assert kit.log.producers.snapshots == [1, 2, 3]
    kept(kit, NOW * 2)
    assert kit.log.producers.snapshots == [4]
    assert kit.append(pid=1, seq=4).first_offset == 4


def test_segments_that_went_leave_no_descriptor_open(kit):
    kit.disk = RealDisk()
    log = kit.create(segment_bytes=2000, index_interval_bytes=1, retention_bytes=2000, file_delete_delay_ms=0)
    for _ in range(100):
        kit.append(value=bytes(200))
        log.sync()
    assert len(log.segments) > 5
    log.delete_old_segments(kit.now, log.log_end_offset)
    log.purge(kit.now)
    assert len(log.segments) <= 2
    assert kit.disk.open_files <= 3 * len(log.segments)
