"""From the bytes of a range to Arrow record batches: what a consumer would see, no more and no less."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.client.fetched import AbortedTransaction, FetchedPartition
from kavka.client.ranges import Chunk
from kavka.model.errors import CorruptMessage
from kavka.model.types import TopicPartition
from kavka.records.batch import Record, scan
from kavka.records.builder import build_batch
from kavka.records.control import txn_marker_batch
from kavka.spark import reading
from kavka.spark.columns import record_batches
from kavka.spark.offsets import Range
from kavka.spark.options import source_options

TP = TopicPartition("t", 3)
OPTIONS = source_options({"kafka.bootstrap.servers": "h", "subscribe": "t"}, streaming=False)


def log(seed: int) -> tuple[bytes, list[AbortedTransaction]]:
    """A log in which transactions of several producers, some of them aborted, are mixed with plain batches."""
    draw = random.Random(seed)
    data, offset, aborted = b"", 0, []
    open_since: dict[int, int] = {}
    for _ in range(40):
        producer = draw.choice([-1, 1, 2])
        if producer in open_since and draw.random() < 0.4:
            commit = draw.random() < 0.5
            if not commit:
                aborted.append(AbortedTransaction(producer, open_since[producer]))
            del open_since[producer]
            data += txn_marker_batch(
                commit=commit,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=0,
                base_offset=offset,
            )
            offset += 1
            continue
        count = draw.randint(1, 4)
        rows = [Record(offset + i, 1000 + offset + i, None, b"%d" % (offset + i)) for i in range(count)]
        data += build_batch(rows, codec=draw.randint(0, 4), producer_id=producer, transactional=producer != -1)
        if producer != -1:
            open_since.setdefault(producer, offset)
        offset += count
    return data, aborted


def seen(chunks: list[Chunk], first: int, after: int, **limits: int) -> list[tuple[int, bytes]]:
    found = []
    for batch in record_batches(TP, chunks, first, after, ("value", "offset", "topic", "partition"), **limits):
        assert set(batch.column("topic").to_pylist()) == {"t"}
        assert set(batch.column("partition").to_pylist()) == {3}
        found += list(zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True))
    return found


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("committed", [False, True])
def test_a_reader_of_columns_sees_what_a_consumer_sees(seed: int, committed: bool) -> None:
    data, aborted = log(seed)
    given = aborted if committed else None
    infos = scan(data)
    chunk = Chunk(memoryview(data), infos, given, 0, infos[-1].last_offset + 1)
    consumer = FetchedPartition(TP, 0, memoryview(data), aborted=given)
    expected = [(record.offset, record.value) for records, _ in consumer.batches() for record in records]
    assert seen([chunk], 0, 1 << 60) == expected
    assert seen([chunk], 0, 1 << 60, max_rows=3) == expected
    assert seen([chunk], 7, 20) == [each for each in expected if 7 <= each[0] < 20]


def test_records_before_the_place_that_was_asked_for_are_not_seen() -> None:
    data = build_batch([Record(offset, 0, None, b"%d" % offset) for offset in range(10)])
    chunk = Chunk(memoryview(data), scan(data), None, 6, 10)
    assert [offset for offset, _ in seen([chunk], 0, 100)] == [6, 7, 8, 9]


def test_a_count_needs_no_columns() -> None:
    data = build_batch([Record(offset, 0, None, b"x") for offset in range(10)])
    chunk = Chunk(memoryview(data), scan(data), None, 0, 10)
    assert sum(batch.num_rows for batch in record_batches(TP, [chunk], 2, 9, ())) == 7


def segment(path: Path, batches: int) -> Path:
    with path.open("wb") as file:
        for number in range(batches):
            rows = [Record(number * 5 + i, 0, None, b"%d" % (number * 5 + i)) for i in range(5)]
            file.write(build_batch(rows, codec=number % 5))
    return path


def from_file(path: Path, start: int, end: int) -> Iterator[Chunk]:
    return reading.chunks(Range(TP, start, end, f"file:{path}"), OPTIONS, None)


def test_a_range_is_read_from_a_segment_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = segment(tmp_path / "00000000000000000000.log", 60)
    for window in (64, 1000, 1 << 20):  # smaller than a batch, some batches, everything
        monkeypatch.setattr(reading, "_FILE_WINDOW", window)
        found = seen(list(from_file(path, 33, 207)), 33, 207)
        assert found == [(offset, b"%d" % offset) for offset in range(33, 207)]


@pytest.mark.parametrize("at", [8, 30, 100, -2])
def test_a_damaged_segment_file_is_an_error(tmp_path: Path, at: int) -> None:
    path = segment(tmp_path / "x.log", 10)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptMessage, match="segment file at byte"):
        seen(list(from_file(path, 0, 50)), 0, 50)


def test_a_segment_file_that_ends_in_the_middle_of_a_batch_is_an_error(tmp_path: Path) -> None:
    path = segment(tmp_path / "x.log", 10)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptMessage, match="goes beyond the end"):
        seen(list(from_file(path, 0, 50)), 0, 50)
    assert len(seen(list(from_file(path, 0, 45)), 0, 45)) == 45, "what comes before can be read"
