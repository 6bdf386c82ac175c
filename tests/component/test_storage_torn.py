"""Whatever a crash left of a log's files, loading it gives a sound prefix of what was written."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.kernels.batches import scan
from kavka.model.types import TopicPartition, Uuid
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.storage.checkpoint import read_offsets, write_offsets
from kavka.storage.config import LogConfig
from kavka.storage.disk import Disk, RealDisk
from kavka.storage.loader import LoadReport, load_log
from kavka.storage.log import AppendOrigin, Log
from kavka.testing.crash_disk import CrashDisk, cut_back

TP = TopicPartition("torn", 0)
NOW = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)
RELAXED = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write_some(log: Log, rng: random.Random, batches: int) -> None:
    """Batches of three producers, some in transactions, over several leader epochs and segments."""
    for _ in range(batches):
        pid = rng.choice([-1, 1, 2, 3])
        entry = log.producers.get(pid)
        epoch = max(log.epochs.latest, 0) + (rng.random() < 0.1)
        if entry is not None and entry.txn_first_offset >= 0 and rng.random() < 0.4:
            data = txn_marker_batch(
                commit=rng.random() < 0.5, producer_id=pid, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
            )
            log.append_as_leader(data, scan(data), epoch, NOW, AppendOrigin.COORDINATOR)
            continue
        builder = BatchBuilder(
            producer_id=pid,
            producer_epoch=0 if pid > 0 else -1,
            base_sequence=(entry.next_sequence if entry else 0) if pid > 0 else -1,
            transactional=pid == 3,
        )
        for _ in range(rng.randint(1, 3)):
            builder.append(b"k", rng.randbytes(rng.randint(0, 60)), NOW)
        data = builder.build()
        log.append_as_leader(data, scan(data), epoch, NOW)


def load(disk: Disk, path: str, recovery_point: int = 0) -> tuple[Log, LoadReport]:
    return load_log(disk, path, TP, CONFIG, clean=False, recovery_point=recovery_point, now_ms=NOW)


def contents(path: str) -> bytes:
    """All bytes of a log, checked batch by batch."""
    data = b"".join(file.read_bytes() for file in sorted(Path(path).glob("*.log")))
    scan(data)
    return data


def check_sound(disk: Disk, log: Log, before: bytes) -> None:
    """The log holds a prefix of what was written, agrees with itself, and takes writes."""
    data = contents(log.path)
    assert before.startswith(data)
    infos = scan(data)
    assert log.log_end_offset == (infos[-1].last_offset + 1 if infos else 0)
    for info in infos:
        assert log.epochs.epoch_for(info.base_offset) == info.leader_epoch
        piece = log.read(info.base_offset, 1, log.log_end_offset)
        assert piece is not None
        assert piece.length == info.size
    last = {info.producer_id: info for info in infos if info.producer_id > 0 and not info.is_control}
    for pid, info in last.items():
        entry = log.producers.get(pid)
        assert entry is not None
        assert (entry.last_sequence, entry.last_offset) == (info.last_sequence, info.last_offset)
    write_some(log, random.Random(1), 3)
    again, report = load(disk, log.path)
    assert again.log_end_offset == log.log_end_offset
    assert report.cut_bytes == 0


@RELAXED
@given(seed=st.integers(0, 2**32))
def test_any_file_cut_at_any_byte_leaves_a_valid_prefix(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = str(tmp_path / "torn-0")
    shutil.rmtree(path, ignore_errors=True)
    disk = RealDisk(max_open=8)
    log = Log.create(disk, path, TP, Uuid(b"t" * 16), CONFIG, NOW)
    write_some(log, rng, rng.randint(1, 25))
    if rng.random() < 0.5:
        log.close()
    before = contents(path)
    size = len(before)
    for name in os.listdir(path):
        if rng.random() < 0.6:
            file = f"{path}/{name}"
            os.truncate(file, rng.randint(0, os.path.getsize(file)))
    loaded, report = load(disk, path)
    check_sound(disk, loaded, before)
    left = sum(segment.size for segment in loaded.segments)
    assert report.cut_bytes <= size - 0 or left == size


@RELAXED
@given(seed=st.integers(0, 2**32))
def test_any_bit_flipped_in_a_log_leaves_a_valid_prefix(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = str(tmp_path / "torn-0")
    shutil.rmtree(path, ignore_errors=True)
    disk = RealDisk(max_open=8)
    log = Log.create(disk, path, TP, Uuid(b"t" * 16), CONFIG, NOW)
    write_some(log, rng, rng.randint(1, 25))
    before = contents(path)
    infos = scan(before)
    victim = rng.choice(infos)
    at = victim.position + rng.randrange(16, victim.size)  # what a checksum, or the magic byte, covers
    for file in sorted(Path(path).glob("*.log")):
        if at < file.stat().st_size:
            data = bytearray(file.read_bytes())
            data[at] ^= 1 << rng.randrange(8)
            file.write_bytes(data)
            break
        at -= file.stat().st_size
    loaded, report = load(disk, path)
    assert loaded.log_end_offset == victim.base_offset
    assert report.cut_bytes == len(before) - victim.position
    check_sound(disk, loaded, before)


@RELAXED
@given(seed=st.integers(0, 2**32))
def test_a_power_failure_keeps_what_was_forced_to_the_device(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root, journal = str(tmp_path / "root"), str(tmp_path / "journal")
    for leftover in (root, journal + ".yard"):
        shutil.rmtree(leftover, ignore_errors=True)
    Path(journal).unlink(missing_ok=True)
    os.mkdir(root)
    path, checkpoint = f"{root}/torn-0", f"{root}/recovery-point-offset-checkpoint"
    disk = CrashDisk(journal, root, max_open=8)
    log = Log.create(disk, path, TP, Uuid(b"t" * 16), CONFIG, NOW)
    promised = 0
    for _ in range(rng.randint(1, 6)):
        write_some(log, rng, rng.randint(0, 8))
        if rng.random() < 0.6:
            log.sync()
            promised = log.recovery_point
            if rng.random() < 0.7:
                write_offsets(disk, checkpoint, {TP: log.recovery_point})
    before = contents(path)
    synced = bool(log.recovery_point)
    cut_back(journal, root, rng)
    plain = RealDisk(max_open=8)
    if not os.path.isdir(path):
        assert not synced
        return
    recovery_point = read_offsets(plain, checkpoint).get(TP, 0)
    loaded, report = load(plain, path, recovery_point)
    assert loaded.log_end_offset >= promised
    check_sound(plain, loaded, before)
    assert len(contents(path)) >= 0
    if report.cut_bytes:
        assert any("cut" in note for note in report.notes)
