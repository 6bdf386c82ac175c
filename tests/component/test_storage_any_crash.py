"""A crash at any moment of a log's life leaves a log that loads, is served, and stops and starts again in order."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kavka.kernels.batches import scan, scan_prefix
from kavka.model.types import TopicPartition, Uuid
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.storage.checkpoint import read_offsets, write_offsets
from kavka.storage.cleaning import assess, make_plan, take_in
from kavka.storage.compaction import compact
from kavka.storage.config import LogConfig
from kavka.storage.disk import RealDisk
from kavka.storage.loader import LoadReport, load_log
from kavka.storage.log import AppendOrigin, Log
from kavka.storage.sync import SyncJob
from kavka.testing.crash_disk import CrashDisk, cut_back
from scale import rounds

TP = TopicPartition("crashed", 0)
NOW = 1_700_000_000_000
LIFE = 40
"""So many things happen to a log at most."""
MANY = settings(
    deadline=None,
    max_examples=rounds(full=3_000, ci=120),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class PowerLostError(BaseException):
    """The machine is gone."""


class MortalDisk(CrashDisk):
    """A disk whose machine loses power before a certain change."""

    __slots__ = ("left",)

    def __init__(self, journal: str, root: str) -> None:
        self.left = 1 << 30
        super().__init__(journal, root, max_open=8)

    def note(self, **fields: Any) -> None:
        super().note(**fields)
        self.left -= 1
        if self.left <= 0:
            raise PowerLostError


class Life:
    """A log, what is done to it, and what it has promised to keep."""

    def __init__(self, root: str, journal: str, rng: random.Random, config: LogConfig) -> None:
        self.rng = rng
        self.config = config
        self.path, self.points, self.starts = f"{root}/crashed-0", f"{root}/recovery", f"{root}/start"
        self.disk = MortalDisk(journal, root)
        self.log = Log.create(self.disk, self.path, TP, Uuid(b"c" * 16), config, NOW)
        self.epoch = 0
        self.now = NOW
        self.has_gaps = config.compact
        self.job: SyncJob | None = None
        self.promised = 0
        """Everything before it that was not removed on purpose is there after a crash."""
        self.written: dict[int, bytes] = {}
        """By base offset: the batches as they are in the log."""
        self.aborted: set[tuple[int, int, int]] = set()
        """Producer, first and last offset of aborted transactions."""

    def act(self) -> None:
        """Do one of the things that nodes do to logs."""
        acts = [self.append] * 8 + [self.follow] * 3 + [self.marker] * 3 + [self.begin_sync, self.end_sync] * 2
        acts += [self.roll, self.truncate, self.delete_records, self.retain, self.checkpoint, self.purge, self.restart]
        if self.config.compact:
            acts += [self.compact] * 2
        self.rng.choice(acts)()

    def _note(self, data: bytes) -> None:
        for info in scan(data):
            self.written[info.base_offset] = data[info.position + 16 : info.position + info.size]

    def append(self) -> None:
        rng, log = self.rng, self.log
        self.now += rng.randint(-3, 50)
        pid = rng.choice([-1, -1, 1, 2])
        entry = log.producers.get(pid)
        sequence = (entry.next_sequence if entry else 0) if pid > 0 else -1
        builder = BatchBuilder(
            producer_id=pid, producer_epoch=0 if pid > 0 else -1, base_sequence=sequence, transactional=pid == 2
        )
        for _ in range(rng.randint(1, 3)):
            builder.append(rng.choice([b"a", b"b", b"c"]), rng.randbytes(rng.randint(0, 60)), self.now)
        data = builder.build()
        first = log.log_end_offset
        self.epoch += rng.random() < 0.1
        self.written[first] = data[16:]
        log.append_as_leader(data, scan(data), self.epoch, self.now)

    def follow(self) -> None:
        """What a follower of a compacted leader is given has gaps."""
        rng, log = self.rng, self.log
        gap = rng.choice([0, 0, 1, 5]) if self.config.compact else 0
        parts, base = [], log.log_end_offset + gap
        for _ in range(rng.randint(1, 3)):
            builder = BatchBuilder(base_offset=base, leader_epoch=self.epoch)
            for _ in range(rng.randint(1, 2)):
                builder.append(b"f", rng.randbytes(rng.randint(0, 40)), self.now)
            parts.append(builder.build())
            base = scan(parts[-1])[-1].last_offset + 1 + (rng.choice([0, 2]) if self.config.compact else 0)
        data = b"".join(parts)
        self._note(data)
        log.append_as_follower(data, scan(data), self.epoch, self.now)

    def marker(self) -> None:
        entry = self.log.producers.get(2)
        if entry is None or entry.txn_first_offset < 0:
            return
        commit = self.rng.random() < 0.4
        data = txn_marker_batch(commit=commit, producer_id=2, producer_epoch=0, coordinator_epoch=0, timestamp=self.now)
        end = self.log.log_end_offset
        self.written[end] = data[16:]
        if not commit:
            self.aborted.add((2, entry.txn_first_offset, end))
        self.log.append_as_leader(data, scan(data), self.epoch, self.now, AppendOrigin.COORDINATOR)

    def begin_sync(self) -> None:
        if self.job is None:
            self.job = self.log.pending_sync()

    def end_sync(self) -> None:
        if self.job is not None:
            job, self.job = self.job, None
            job.run()
            self.log.synced(job)
            self.promised = max(self.promised, min(job.offset, self.log.recovery_point))

    def checkpoint(self) -> None:
        write_offsets(self.disk, self.points, {TP: self.log.recovery_point})
        write_offsets(self.disk, self.starts, {TP: self.log.log_start_offset})

    def roll(self) -> None:
        self.log.roll(self.now)

    def truncate(self) -> None:
        log = self.log
        if self.rng.random() < 0.5:
            return
        offset = self.rng.randint(log.log_start_offset, log.log_end_offset)
        entry = log.producers.get(2)
        if entry is not None and entry.txn_first_offset >= 0:
            offset = min(offset, entry.txn_first_offset)
        left = [last for last in ends(log) if last < offset]  # whole batches go, and gaps with them
        self.promised = min(self.promised, max(left, default=-1) + 1)
        self._forget_from(self.promised)
        log.truncate_to(offset, self.now)
        self.epoch += 1
        self.checkpoint()  # as nodes do before a log grows again

    def _forget_from(self, offset: int) -> None:
        self.aborted = {each for each in self.aborted if each[2] < offset}

    def delete_records(self) -> None:
        log = self.log
        start = self.rng.randint(log.log_start_offset, log.log_end_offset)
        log.advance_log_start_offset(start, log.log_end_offset)

    def retain(self) -> None:
        self.log.delete_old_segments(self.now, self.log.log_end_offset)

    def purge(self) -> None:
        self.log.purge(self.now + self.rng.choice([0, 1 << 40]))

    def compact(self) -> None:
        log = self.log
        cleanable = assess(log, None, log.log_end_offset, self.now)
        if cleanable.cleanable_bytes > 0:
            plan = make_plan(cleanable, self.now, 1 << 20)
            take_in(log, plan, compact(self.disk, plan), self.now)

    def restart(self) -> None:
        """Stop in order and start again; another policy may be in force then."""
        self.end_sync()
        self.log.close()
        self.promised = self.log.log_end_offset
        self.checkpoint()
        if self.rng.random() < 0.3:
            self.config = replace(self.config, compact=not self.config.compact)
            self.has_gaps |= self.config.compact
        self.log = open_log(self.disk, self, clean=True)[0]
        assert self.log.log_end_offset == self.promised
        served(self.log, self)


def ends(log: Log) -> list[int]:
    """Where the batches of a log end."""
    files = (Path(segment.file.path).read_bytes()[: segment.size] for segment in log.segments)
    return [info.last_offset for data in files for info in scan(data)]


def open_log(disk: RealDisk, life: Life, *, clean: bool) -> tuple[Log, LoadReport]:
    point, start = (read_offsets(disk, path).get(TP, 0) for path in (life.points, life.starts))
    return load_log(
        disk, life.path, TP, life.config, clean=clean, recovery_point=point, log_start_offset=start, now_ms=life.now
    )


def served(log: Log, life: Life) -> list[int]:
    """The offsets that are read one after the other from the start to the end; each batch is one that was written."""
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 100, log.log_end_offset)
        if piece is None:  # compaction, or its leader's, has left nothing behind
            break
        infos = scan_prefix(piece.file.read_at(piece.position, piece.length))[0]
        assert infos[-1].last_offset >= offset
        for info in infos:
            if info.last_offset >= offset:
                assert not found or info.base_offset > found[-1]
                found += range(info.base_offset, info.last_offset + 1)
        offset = infos[-1].last_offset + 1
    return found


@MANY
@given(seed=st.integers(0, 2**32), compacts=st.booleans())
def test_a_log_is_served_after_a_crash_at_any_moment(tmp_path: Path, seed: int, compacts: bool) -> None:
    rng = random.Random(seed)
    root, journal = str(tmp_path / "root"), str(tmp_path / "journal")
    for leftover in (root, journal + ".yard"):
        shutil.rmtree(leftover, ignore_errors=True)
    Path(journal).unlink(missing_ok=True)
    os.mkdir(root)
    config = LogConfig(
        segment_bytes=rng.choice([300, 400, 800]),
        index_interval_bytes=rng.choice([0, 80, 300]),
        compact=compacts,
        preallocate=rng.random() < 0.2,
        retention_ms=-1,
    )
    life = Life(root, journal, rng, config)
    life.disk.left = rng.randint(1, 150)
    try:
        for _ in range(rng.randint(1, LIFE)):
            life.act()
    except PowerLostError:
        pass
    cut_back(journal, root, rng)
    disk = RealDisk(max_open=8)
    if not os.path.isdir(life.path):
        assert not life.promised
        return
    log, _ = open_log(disk, life, clean=False)
    assert log.log_end_offset >= life.promised
    there = served(log, life)
    if not life.has_gaps:
        first = there[0] if there else log.log_end_offset
        assert first <= log.log_start_offset
        assert there == list(range(first, log.log_end_offset))
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    known = {(each.producer_id, each.first_offset, each.last_offset) for each in aborted}
    kept = {each for each in life.aborted if each[1] >= log.log_start_offset and each[2] < life.promised}
    assert life.has_gaps or kept <= known  # compaction removes what was aborted
    end = log.log_end_offset
    log.close()
    write_offsets(disk, life.points, {TP: end})
    write_offsets(disk, life.starts, {TP: log.log_start_offset})
    again, report = open_log(disk, life, clean=True)
    assert report.notes == []
    assert again.log_end_offset == end
    assert served(again, life) == there
