"""Records to Arrow columns: both twins against the plain reader of records, on every codec and on damaged bytes."""

from __future__ import annotations

import struct
import time
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scale import rounds

from kavka.kernels import COMPILED, plain_arrow
from kavka.kernels.batches import scan, scan_prefix
from kavka.model.errors import KafkaError
from kavka.records.batch import Record, records
from kavka.records.builder import build_batch
from kavka.spark.columns import decode_batch, to_arrays

KERNELS: list[Any] = [plain_arrow]
if COMPILED:
    from kavka.kernels import _arrow

    KERNELS.append(_arrow)

THOROUGH = settings(max_examples=rounds(2000, 80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.integers(-1, 1 << 42)
FIELD = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=6)), max_size=3).map(tuple)

Row = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.__name__.rpartition(".")[2])
def kernel(request: pytest.FixtureRequest) -> Any:
    return request.param


@st.composite
def batches(draw: st.DrawFn, codec: int | None = None) -> bytes:
    offset = draw(st.integers(0, 1 << 40))
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        rows.append(Record(offset, draw(TIMES), draw(FIELD), draw(FIELD), draw(HEADERS)))
        offset += draw(st.integers(1, 3))
    append_time = draw(st.none() | TIMES)
    return build_batch(rows, codec=draw(st.integers(0, 4)) if codec is None else codec, log_append_time=append_time)


def expected(data: bytes, first: int = 0, after: int = (1 << 63) - 1) -> list[Row]:
    """What the reader of single records finds."""
    return [
        (row.offset, row.timestamp * 1000, int(info.is_log_append_time), row.key, row.value, list(row.headers) or None)
        for info in scan(data)
        for row in records(data, info)
        if first <= row.offset < after
    ]


def found(columns: Any) -> list[Row]:
    arrays = to_arrays(columns, ["offset", "timestamp", "timestampType", "key", "value", "headers"])
    for array in arrays:
        array.validate(full=True)
    offset, timestamp, kind, key, value, headers = arrays
    lists = [None if row is None else [(h["key"], h["value"]) for h in row] for row in headers.to_pylist()]
    return list(
        zip(
            offset.to_pylist(),
            timestamp.cast(pa.int64()).to_pylist(),
            kind.to_pylist(),
            key.to_pylist(),
            value.to_pylist(),
            lists,
            strict=True,
        )
    )


def decode(columns: Any, data: bytes, first: int = 0, after: int = (1 << 63) - 1) -> None:
    for info in scan(data):
        decode_batch(columns, data, info, first, after)


@pytest.mark.parametrize("codec", range(5))
@THOROUGH
@given(st.data())
def test_the_columns_hold_what_the_reader_of_records_reads(codec: int, data: st.DataObject) -> None:
    batch = b"".join(data.draw(st.lists(batches(codec), min_size=1, max_size=3)))
    for kernel in KERNELS:
        columns = kernel.RecordColumns(True, True, True)
        decode(columns, batch)
        assert found(columns) == expected(batch)
        columns.clear()
        assert (columns.rows, columns.size, found(columns)) == (0, 0, [])
        decode(columns, batch)
        assert found(columns) == expected(batch)


@THOROUGH
@given(batches(), st.integers(0, 1 << 41), st.integers(0, 1 << 41), st.data())
def test_only_the_rows_of_the_range_are_taken(batch: bytes, first: int, after: int, data: st.DataObject) -> None:
    base = scan(batch)[0].base_offset
    low, high = data.draw(st.sampled_from([(first, after), (base + 1, base + 3), (0, base + 2), (base, 1 << 50)]))
    for kernel in KERNELS:
        columns = kernel.RecordColumns(True, True, True)
        decode(columns, batch, low, high)
        assert found(columns) == expected(batch, low, high)


@THOROUGH
@given(batches(), st.data())
def test_a_changed_byte_is_an_error_and_never_a_wrong_row(batch: bytes, data: st.DataObject) -> None:
    broken = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(17, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    infos, _, reason = scan_prefix(broken)
    if bytes(broken) != batch:
        assert reason is not None
        assert not infos


@THOROUGH
@given(batches(0), st.data())
def test_bytes_that_only_the_crc_would_betray_are_the_same_error_in_both_twins(
    batch: bytes, data: st.DataObject
) -> None:
    broken = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(57, len(batch) - 1))] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", broken, 17, crc32c(bytes(broken[21:])))
    (info,) = scan(broken)
    outcomes = []
    for kernel in KERNELS:
        columns = kernel.RecordColumns(True, True, True)
        decode(columns, batch)
        try:
            decode_batch(columns, broken, info, 0, (1 << 63) - 1)
            outcomes.append(found(columns))
        except KafkaError as error:
            outcomes.append((type(error), str(error)))
            assert found(columns) == expected(batch), "a batch that cannot be read leaves no row behind"
    assert all(outcome == outcomes[0] for outcome in outcomes)
    if isinstance(outcomes[0], list):
        assert outcomes[0] == expected(batch) + expected(bytes(broken))


@given(st.binary(max_size=80), st.integers(-1, 8), INT64, INT64)
@THOROUGH
def test_any_bytes_at_all_are_read_alike(payload: bytes, count: int, base_offset: int, base_timestamp: int) -> None:
    from kavka.kernels.batches import BatchInfo

    info = BatchInfo(count=count, base_offset=base_offset, base_timestamp=base_timestamp)
    outcomes = []
    for kernel in KERNELS:
        columns = kernel.RecordColumns(True, True, True)
        try:
            columns.append(payload, info, -(1 << 63), (1 << 63) - 1)
            outcomes.append((columns.rows, found(columns)))
        except KafkaError as error:
            outcomes.append((type(error), str(error)))
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_columns_that_were_not_asked_for_are_not_kept(kernel: Any) -> None:
    batch = build_batch([Record(0, 1, b"key", b"value", (("name", b"content"),))])
    columns = kernel.RecordColumns(False, True, False)
    decode(columns, batch)
    assert columns.size == len(b"value")
    assert to_arrays(columns, ["value"])[0].to_pylist() == [b"value"]
    for name in ("key", "headers"):
        with pytest.raises(ValueError, match="not asked for"):
            to_arrays(columns, [name])


def test_a_time_beyond_microseconds_is_an_error(kernel: Any) -> None:
    batch = build_batch([Record(0, (1 << 63) - 1, None, None)])
    columns = kernel.RecordColumns()
    with pytest.raises(KafkaError, match="microseconds"):
        decode(columns, batch)
    assert columns.rows == 0


def test_a_batch_that_promises_more_than_it_holds_takes_no_memory_for_it(kernel: Any) -> None:
    batch = bytearray(build_batch([Record(0, 1, None, b"v")]))
    struct.pack_into(">i", batch, 57, 0x7FFFFFFF)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    columns = kernel.RecordColumns()
    with pytest.raises(KafkaError):
        decode(columns, bytes(batch))


@pytest.mark.skipif(not COMPILED, reason="needs the compiled kernels")
def test_the_compiled_kernel_is_many_times_faster_than_its_twin() -> None:
    batch = build_batch([Record(i, i, None, bytes(100)) for i in range(2000)])
    info = scan(batch)[0]
    seconds = []
    for kernel in KERNELS:
        columns = kernel.RecordColumns(True, True, False)
        best = 9.0
        for _ in range(5):
            columns.clear()
            began = time.process_time()
            decode_batch(columns, batch, info, 0, (1 << 63) - 1)
            best = min(best, time.process_time() - began)
        seconds.append(best)
    assert seconds[1] * 5 < seconds[0]
