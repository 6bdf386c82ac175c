"""What compaction does with batches that cannot be read, or are more than they seem: the rest is compacted."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from hostile.attacker import TIME, batch, packed, record_of_zeros
from kavka.kernels.batches import encode_record, scan
from kavka.model.types import TopicPartition
from kavka.records.batch import records
from kavka.storage.cleaning import assess, make_plan, take_in
from kavka.storage.compaction import CompactionResult, compact
from kavka.storage.disk import RealDisk
from kavka.storage.log import Log, LogConfig

CONFIG = LogConfig(compact=True, delete=False)


def a_log(folder: Path, *stored: bytes) -> Log:
    log = Log.create(RealDisk(), str(folder / "t-0"), TopicPartition("t", 0), None, CONFIG)
    for data in stored:
        log.append_as_leader(data, scan(data), 0, TIME)
    log.roll(TIME)
    return log


def compacted(log: Log) -> CompactionResult:
    plan = make_plan(assess(log, 0, log.log_end_offset, TIME), TIME, 1 << 20)
    result = compact(log.disk, plan)
    take_in(log, plan, result, TIME)
    return result


def kept(log: Log) -> list[bytes]:
    data = b"".join(segment.file.read_at(0, segment.size) for segment in log.segments)
    return [data[info.position : info.position + info.size] for info in scan(data)]


def keyed(value: bytes) -> bytes:
    return batch(encode_record(0, 0, b"key", value))


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_cannot_be_read_stays_and_the_rest_is_compacted(tmp_path: Path, codec: int) -> None:
    noise = random.Random(codec).randbytes(200)
    poison = batch(noise, codec=codec)
    log = a_log(tmp_path, keyed(b"old"), poison, keyed(b"new"))
    result = compacted(log)
    assert result.unread == 1
    left = kept(log)
    assert [data[61:] for data in left] == [noise, encode_record(0, 0, b"key", b"new")]


def test_the_keys_of_a_batch_that_cannot_be_read_take_nothing_away(tmp_path: Path) -> None:
    half = encode_record(0, 0, b"key", b"lost?") + b"\x80\x80"
    log = a_log(tmp_path, keyed(b"old"), batch(half, count=2))
    assert compacted(log).unread == 1
    first = kept(log)[0]
    assert [record.value for record in records(first, scan(first)[0])] == [b"old"]


def test_offsets_that_do_not_go_up_leave_a_batch_as_it_is(tmp_path: Path) -> None:
    twice = encode_record(0, 0, b"key", b"1") + encode_record(0, 0, b"key", b"2")
    log = a_log(tmp_path, keyed(b"old"), batch(twice, count=2), keyed(b"new"))
    assert compacted(log).unread == 1
    assert kept(log)[0][61:] == twice


def test_a_header_name_that_is_no_text_leaves_a_batch_as_it_is(tmp_path: Path) -> None:
    odd = bytes.fromhex("16 00 00 00 02 6b 02 76 02 02 ff 01")
    log = a_log(tmp_path, batch(odd), keyed(b"new"))
    assert compacted(log).unread == 1


def test_what_is_too_much_for_the_memory_is_left_as_it_is(tmp_path: Path) -> None:
    bomb = batch(packed(4, record_of_zeros(255 << 20)), codec=4)
    log = a_log(tmp_path, bomb, keyed(b"new"))
    tracemalloc.start()
    try:
        assert compacted(log).unread == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_of_many_records_few_are_in_memory_at_once(tmp_path: Path) -> None:
    count = 300_000
    many = b"".join(encode_record(number, 0, b"%d" % (number % 1000), None) for number in range(count))
    log = a_log(tmp_path, batch(packed(4, [many]), count=count, codec=4), keyed(b"new"))
    tracemalloc.start()
    try:
        result = compacted(log)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (result.unread, result.records_kept) == (0, 1001)
    assert peak < 12 << 20  # all of them at once would be 60 MB
