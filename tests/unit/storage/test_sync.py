from __future__ import annotations

import threading

from kavka.storage.disk import RealDisk, RealFile

NOW = 1_700_000_000_000


class WatchedFile(RealFile):
    __slots__ = ()

    def sync(self):
        super().sync()
        self._disk.synced.append(self.path.rpartition("/")[2])


class WatchedDisk(RealDisk):
    """Remembers what was forced to the device."""

    __slots__ = ("synced",)

    def __init__(self):
        super().__init__(max_open=16)
        self.synced = []

    def file(self, path):
        return WatchedFile(self, path)

    def create(self, path):
        super().create(path).close()
        return WatchedFile(self, path)

    def fsync_dir(self, path):
        super().fsync_dir(path)
        self.synced.append(path.rpartition("/")[2] + "/")


def watched(kit):
    kit.disk = WatchedDisk()
    return kit.create()


def test_a_new_log_forces_its_names_its_topic_id_and_its_epochs(kit):
    log = watched(kit)
    log.epochs.assign(4, 0)
    log.sync()
    assert "partition.metadata" in kit.disk.synced
    assert "orders-3/" in kit.disk.synced
    assert kit.root.name + "/" in kit.disk.synced
    assert (kit.root / "orders-3" / "leader-epoch-checkpoint").read_text() == "0\n1\n4 0\n"
    assert log.pending_sync() is None


def test_the_recovery_point_moves_only_when_the_job_is_reported(kit):
    log = watched(kit)
    kit.append(count=3)
    assert log.unflushed_messages == 3
    job = log.pending_sync()
    assert log.pending_sync() is None
    kit.append(count=2)
    thread = threading.Thread(target=job.run)
    thread.start()
    thread.join()
    assert log.recovery_point == 0
    log.synced(job)
    assert (log.recovery_point, log.unflushed_messages) == (3, 2)
    log.sync()
    assert log.recovery_point == 5


def test_a_rolled_segment_is_forced_with_its_indexes_and_snapshot_an_active_one_alone(kit):
    log = watched(kit)
    log.sync()
    kit.disk.synced.clear()
    kit.append(pid=1)
    log.sync()
    assert kit.disk.synced == ["0" * 20 + ".log", "orders-3/"]  # and the epochs were replaced
    kit.disk.synced.clear()
    log.roll(NOW)
    kit.append(pid=1, seq=1)
    log.sync()
    stem, new = "0" * 20, f"{1:020d}"
    expected = {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex", f"{new}.log", f"{new}.snapshot"}
    assert {name for name in kit.disk.synced if not name.endswith("/")} == expected
    kit.disk.synced.clear()
    kit.append(pid=1, seq=2)
    log.sync()
    assert kit.disk.synced == [f"{new}.log"]


def test_truncating_while_a_job_runs_bounds_what_it_proves(kit):
    log = watched(kit)
    for _ in range(5):
        kit.append()
    job = log.pending_sync()
    log.truncate_to(2)
    kit.append(count=9)
    job.run()
    log.synced(job)
    assert log.recovery_point == 2


def test_a_log_deleted_while_a_job_runs_is_no_error(kit):
    log = watched(kit)
    kit.append()
    job = log.pending_sync()
    log.mark_deleted("0" * 32)
    log.delete()
    job.run()
    log.synced(job)
    assert job.error is None


def test_a_job_keeps_its_descriptors(kit):
    log = watched(kit)
    kit.append()
    job = log.pending_sync()
    for number in range(40):
        kit.disk.create(f"{kit.root}/{number}").fileno()
    assert log.segments[0].file._fd >= 0
    job.run()
    log.synced(job)


def test_closing_forces_the_active_segments_indexes_as_well(kit):
    log = watched(kit)
    kit.append(pid=1)
    log.sync()
    kit.disk.synced.clear()
    log.close()
    forced = {name.partition(".")[2] for name in kit.disk.synced if not name.endswith("/")}
    assert forced == {"log", "index", "timeindex", "snapshot"}


def test_closing_without_sync_leaves_it_to_the_caller(kit):
    log = watched(kit)
    kit.append(pid=1)
    kit.disk.synced.clear()
    log.close(sync=False)
    assert kit.disk.synced == []
    assert log.recovery_point == 1
    kit.load(clean=True)
    assert kit.log.producers.get(1).last_sequence == 0
    assert kit.log.epochs.entries == ((0, 0),)


def test_closing_an_untouched_log_writes_nothing(kit):
    watched(kit)
    kit.append(pid=1)
    kit.log.close()
    kit.load(clean=True)
    before = {path: path.stat().st_mtime_ns for path in (kit.root / "orders-3").iterdir()}
    kit.log.close(sync=False)
    assert {path: path.stat().st_mtime_ns for path in (kit.root / "orders-3").iterdir()} == before
