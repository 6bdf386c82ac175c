"""Compaction, round after round, equals a naive model of it and never changes what a reader of the whole log sees."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.kernels.batches import scan
from kavka.model.types import TopicPartition, Uuid
from kavka.records.batch import records
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.storage.cleaning import assess, make_plan, take_in
from kavka.storage.compaction import compact
from kavka.storage.config import LogConfig
from kavka.storage.disk import RealDisk
from kavka.storage.loader import load_log
from kavka.storage.log import AppendOrigin, Log

TP = TopicPartition("compacted", 0)
NOW = 1_700_000_000_000
RETENTION = 1000
CONFIG = LogConfig(
    segment_bytes=500, index_interval_bytes=100, compact=True, delete=False, delete_retention_ms=RETENTION
)
RELAXED = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Written:
    """A record as it was written; `horizon` is when its tombstone may go, once compaction has seen it."""

    offset: int
    key: bytes
    value: bytes | None
    horizon: int | None = None


def new_log(tmp_path: Path, disk: RealDisk) -> Log:
    path = str(tmp_path / "compacted-0")
    shutil.rmtree(path, ignore_errors=True)
    return Log.create(disk, path, TP, Uuid(b"c" * 16), CONFIG, NOW)


def reopen(disk: RealDisk, log: Log, clean: bool) -> Log:
    if clean:
        log.close()
    log, report = load_log(disk, log.path, TP, CONFIG, clean=clean, recovery_point=log.recovery_point, now_ms=NOW)
    assert report.cut_bytes == 0
    return log


def survivors(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Every data record that is left, with its offset."""
    found = []
    for segment in log.segments:
        data = Path(segment.file.path).read_bytes()
        for info in scan(data):
            if not info.is_control:
                found += [(record.offset, record.key, record.value) for record in records(data, info)]
    return found


def view(log: Log) -> dict[bytes, bytes]:
    """What a read-committed reader knows after reading everything: the last value of each key."""
    aborted = log.aborted_transactions(0, 1 << 40)
    latest: dict[bytes, bytes] = {}
    for segment in log.segments:
        data = Path(segment.file.path).read_bytes()
        for info in scan(data):
            skipped = info.is_transactional and any(
                txn.producer_id == info.producer_id and txn.first_offset <= info.base_offset <= txn.last_offset
                for txn in aborted
            )
            if info.is_control or skipped:
                continue
            for record in records(data, info):
                assert record.key is not None
                if record.value is None:
                    latest.pop(record.key, None)
                else:
                    latest[record.key] = record.value
    return latest


def clean_once(log: Log, disk: RealDisk, clean_offset: int | None, now: int, buffer: int) -> int | None:
    """One round; None if there is nothing new to look at."""
    cleanable = assess(log, clean_offset, log.log_end_offset, now)
    if not cleanable.cleanable_bytes:
        return None
    plan = make_plan(cleanable, now, buffer)
    offset = take_in(log, plan, compact(disk, plan), now)
    assert offset is not None
    log.purge(now + 10**9)
    return offset


@RELAXED
@given(seed=st.integers(0, 2**32))
def test_single_records_survive_exactly_as_the_rules_say(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = RealDisk(max_open=16)
    log = new_log(tmp_path, disk)
    model: list[Written] = []
    clean_offset: int | None = None
    now = NOW
    for _ in range(rng.randint(1, 5)):
        for _ in range(rng.randint(0, 25)):
            key = b"%d" % rng.randrange(6)
            value = None if rng.random() < 0.3 else rng.randbytes(20)
            builder = BatchBuilder(codec=rng.choice([0, 0, 3]))
            builder.append(key, value, now)
            data = builder.build()
            info = log.append_as_leader(data, scan(data), 0, now)
            model.append(Written(info.first_offset, key, value))
        if rng.random() < 0.5:
            log.roll(now)
        uncleanable = log.segments[-1].base_offset
        at, now = now, now + rng.choice([0, 400, 2000])
        cleaned = clean_once(log, disk, clean_offset, at, rng.choice([24 * 4, 1 << 16]))
        if cleaned is None:
            continue
        clean_offset = cleaned
        last = {w.key: w.offset for w in model if w.offset < clean_offset}
        kept = []
        for written in model:
            if written.offset >= clean_offset:
                kept.append(written)
            elif last[written.key] == written.offset:
                if written.value is None and written.horizon is None:
                    written.horizon = at + RETENTION
                elif written.value is None and written.horizon is not None and written.horizon <= at:
                    continue
                kept.append(written)
        model = kept
        expected = [(w.offset, w.key, w.value) for w in model]
        # Segments that hold the first offset not cleaned are rewritten too: their tombstones get a horizon early.
        assert clean_offset <= uncleanable
        for written in model:
            segment = log.segment_of(written.offset)
            if written.value is None and written.horizon is None and segment is not None:
                (info,) = (i for i in scan(Path(segment.file.path).read_bytes()) if i.base_offset == written.offset)
                written.horizon = info.base_timestamp if info.has_delete_horizon else None
        assert survivors(log) == expected
        if rng.random() < 0.4:
            log = reopen(disk, log, clean=rng.random() < 0.5)
            assert survivors(log) == expected


@RELAXED
@given(seed=st.integers(0, 2**32))
def test_a_reader_of_everything_sees_the_same_before_and_after(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = RealDisk(max_open=16)
    log = new_log(tmp_path, disk)
    clean_offset: int | None = None
    now = NOW
    for _ in range(rng.randint(1, 5)):
        for _ in range(rng.randint(0, 20)):
            write_some(log, rng, now)
        if rng.random() < 0.5:
            log.roll(now)
        if rng.random() < 0.2:
            log.remove_expired_producers(now + 10**9)
        before, end = view(log), log.log_end_offset
        producers = {e.producer_id: (e.producer_epoch, e.last_sequence, e.last_offset) for e in log.producers}
        cleaned = clean_once(log, disk, clean_offset, now, rng.choice([24 * 4, 1 << 16]))
        clean_offset = clean_offset if cleaned is None else cleaned
        assert view(log) == before
        assert log.log_end_offset == end
        offsets = [offset for offset, _, _ in survivors(log)]
        assert offsets == sorted(set(offsets))
        now += rng.choice([0, 400, 2000])
        if rng.random() < 0.5:
            log = reopen(disk, log, clean=rng.random() < 0.5)
            assert view(log) == before
            assert log.log_end_offset == end
            for pid, known in producers.items():
                entry = log.producers.get(pid)
                assert entry is not None
                assert (entry.producer_epoch, entry.last_sequence, entry.last_offset) == known


def write_some(log: Log, rng: random.Random, now: int) -> None:
    pid = rng.choice([-1, 1, 2, 3])
    entry = log.producers.get(pid)
    open_txn = entry is not None and entry.txn_first_offset >= 0
    if open_txn and rng.random() < 0.6:
        data = txn_marker_batch(
            commit=rng.random() < 0.5, producer_id=pid, producer_epoch=0, coordinator_epoch=0, timestamp=now
        )
        log.append_as_leader(data, scan(data), 0, now, AppendOrigin.COORDINATOR)
        return
    builder = BatchBuilder(
        producer_id=pid,
        producer_epoch=0 if pid > 0 else -1,
        base_sequence=(entry.next_sequence if entry else 0) if pid > 0 else -1,
        transactional=pid > 1,
        codec=rng.choice([0, 0, 4]),
    )
    for _ in range(rng.randint(1, 3)):
        builder.append(b"%d" % rng.randrange(6), None if rng.random() < 0.3 else rng.randbytes(10), now)
    data = builder.build()
    log.append_as_leader(data, scan(data), 0, now)
