"""Batches in the log, from older versions or a leader, whose headers promise a time that none of their records has."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from hostile.attacker import TIME, batch, packed, record_of_zeros
from kavka.kernels.batches import encode_record, scan
from kavka.model.types import TopicPartition
from kavka.storage.disk import RealDisk
from kavka.storage.log import Log, LogConfig
from kavka.storage.segment import TimestampOffset

PROMISED = TIME + 1_000_000
STEP_BYTES = 128 << 10


def a_log(folder: Path, stored: list[bytes]) -> Log:
    log = Log.create(RealDisk(), str(folder / "t-0"), TopicPartition("t", 0), None, LogConfig())
    for data in stored:
        log.append_as_leader(data, scan(data), 0, TIME)
    return log


def search(log: Log) -> tuple[int, TimestampOffset | None]:
    steps, going = 0, log.search_timestamp(PROMISED)
    while True:
        try:
            next(going)
            steps += 1
        except StopIteration as end:
            return steps, end.value


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_search_looks_at_a_little_at_a_time_and_keeps_nothing(tmp_path: Path, codec: int) -> None:
    bomb = batch(packed(codec, record_of_zeros(32 << 20)), codec=codec, newest=PROMISED)
    log = a_log(tmp_path, [bomb] * 6)
    tracemalloc.start()
    try:
        steps, found = search(log)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is None
    assert steps >= 6 * (32 << 20) // STEP_BYTES
    assert peak < 4 << 20


def test_millions_of_records_never_become_objects(tmp_path: Path) -> None:
    count = 2_000_000
    bomb = batch(packed(4, [encode_record(0, 0, None, None) * count]), count=count, codec=4, newest=PROMISED)
    sound = batch(encode_record(0, PROMISED - TIME, None, b"here"), newest=PROMISED)
    log = a_log(tmp_path, [bomb, sound])
    tracemalloc.start()
    try:
        _, found = search(log)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == TimestampOffset(PROMISED, count, 0)
    assert peak < 4 << 20
