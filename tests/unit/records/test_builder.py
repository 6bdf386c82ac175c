"""Building batches, with the parsers of aiokafka and kafka-python as witnesses."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaBatch

from kavka.kernels.batches import scan
from kavka.records.batch import Record, records
from kavka.records.builder import BatchBuilder, build_batch, empty_batch, restamped

TIME = 1_700_000_000_000


def built(codec: int = 0, **options: Any) -> bytes:
    rows = [Record(7 + i, TIME + 3 * i, b"k%d" % i, b"v" * i, (("h", b"x"),) if i % 2 else ()) for i in range(9)]
    return build_batch(rows, codec=codec, **options)


@pytest.mark.parametrize(
    ("parser", "codec"), [(AioBatch, codec) for codec in range(5)] + [(KafkaBatch, codec) for codec in (0, 1, 3, 4)]
)
def test_other_clients_read_what_is_built(parser: Any, codec: int) -> None:
    data = built(codec, producer_id=9, producer_epoch=2, base_sequence=5, transactional=True, leader_epoch=3)
    batch = parser(bytearray(data))
    assert batch.validate_crc()
    assert batch.is_transactional
    assert not batch.is_control_batch
    assert (batch.base_offset, batch.magic, batch.compression_type) == (7, 2, codec)
    found = [Record(r.offset, r.timestamp, r.key, r.value, tuple((h[0], h[1]) for h in r.headers)) for r in batch]
    (info,) = scan(data)
    assert found == list(records(data, info))
    assert (info.leader_epoch, info.producer_id, info.producer_epoch, info.base_sequence) == (3, 9, 2, 5)
    assert (info.base_timestamp, info.max_timestamp, info.count, info.last_offset) == (TIME, TIME + 24, 9, 15)


RECORD = st.tuples(
    st.integers(-1, 1 << 50),
    st.none() | st.binary(max_size=30),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3).map(tuple),
)


@settings(deadline=None)
@given(st.integers(0, 1 << 60), st.lists(RECORD, min_size=1, max_size=20), st.integers(0, 4))
def test_what_is_built_is_what_is_read(base: int, rows: list[Any], codec: int) -> None:
    batch = [Record(base + delta, *row) for delta, row in enumerate(rows)]
    data = build_batch(batch, codec=codec)
    (info,) = scan(data)
    assert list(records(data, info)) == batch
    assert info.max_timestamp == max(record.timestamp for record in batch)


def test_records_get_the_next_offsets() -> None:
    builder = BatchBuilder(base_offset=100)
    assert [builder.append(None, b"x", TIME) for _ in range(3)] == [100, 101, 102]
    assert builder.append(None, b"x", TIME, offset=110) == 110
    with pytest.raises(ValueError, match="does not follow"):
        builder.append(None, b"x", TIME, offset=110)
    (info,) = scan(builder.build())
    assert (info.base_offset, info.last_offset, info.count) == (100, 110, 4)


def test_an_offset_too_far_from_the_first_is_refused() -> None:
    builder = BatchBuilder(base_offset=5)
    builder.append(None, b"x", TIME, offset=5 + (1 << 31) - 1)
    with pytest.raises(ValueError, match="too far"):
        builder.append(None, b"x", TIME, offset=5 + (1 << 31))


@pytest.mark.parametrize("times", [(-(1 << 63), (1 << 63) - 1), ((1 << 63) - 1, -(1 << 63))])
def test_timestamps_may_be_64_bits_apart(times: tuple[int, int]) -> None:
    data = build_batch([Record(i, time, b"k", b"v") for i, time in enumerate(times)])
    (info,) = scan(data)
    assert tuple(record.timestamp for record in records(data, info)) == times


def test_the_size_is_known_before_the_batch_is_built() -> None:
    builder = BatchBuilder()
    assert builder.size == 61
    for _ in range(10):
        builder.append(b"key", b"value", TIME, [("a", b"b")])
    assert builder.size == len(builder.build())


def test_a_producer_may_be_set_after_the_records() -> None:
    builder = BatchBuilder()
    builder.append(None, b"x", TIME)
    builder.producer_id, builder.producer_epoch, builder.base_sequence = 4, 5, 6
    (info,) = scan(builder.build())
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (4, 5, 6)


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        BatchBuilder().build()
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_log_append_time_is_every_record_s_time() -> None:
    data = built(log_append_time=TIME + 1000)
    (info,) = scan(data)
    assert info.is_log_append_time
    assert {record.timestamp for record in records(data, info)} == {info.max_timestamp} == {TIME + 1000}


def test_compaction_keeps_the_end_and_the_horizon() -> None:
    builder = BatchBuilder(base_offset=5, delete_horizon_ms=TIME + 50)
    builder.append(b"k", None, TIME, offset=6)
    data = builder.build(last_offset=20)
    (info,) = scan(data)
    assert info.has_delete_horizon
    assert (info.base_timestamp, info.max_timestamp) == (TIME + 50, TIME)
    assert (info.base_offset, info.last_offset, info.count) == (5, 20, 1)
    assert list(records(data, info)) == [Record(6, TIME, b"k", None)]


def test_an_emptied_batch_remembers_its_producer() -> None:
    (before,) = scan(built(4, producer_id=9, producer_epoch=2, base_sequence=5, transactional=True, leader_epoch=3))
    (after,) = scan(empty_batch(before))
    assert (after.count, after.codec, after.size, after.base_timestamp) == (0, 0, 61, -1)
    for name in ("base_offset", "last_offset", "leader_epoch", "producer_id", "last_sequence", "max_timestamp"):
        assert getattr(after, name) == getattr(before, name)
    assert after.is_transactional


def test_a_restamped_batch_has_create_time_and_its_old_records() -> None:
    data = b"?" + built(3, log_append_time=TIME, producer_id=1)
    (info,) = scan(data, 1)
    again = restamped(data, info, TIME + 24)
    (new,) = scan(again)
    assert not new.is_log_append_time
    assert (new.max_timestamp, new.producer_id, new.codec, again[61:]) == (TIME + 24, 1, 3, data[62:])
