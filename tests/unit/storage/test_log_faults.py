from __future__ import annotations

import errno

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.storage.disk import RealDisk, RealFile

NOW = 1_700_000_000_000


class FaultyFile(RealFile):
    """Writes a part, then fails as it is told to."""

    __slots__ = ()

    def write_at(self, position, buffers, length):
        fault = self._disk.fault
        if fault is not None and self.path.endswith(self._disk.kind):
            data = b"".join(buffers)
            super().write_at(position, [data[: len(data) // 2]], len(data) // 2)
            raise OSError(fault, "injected", self.path)
        super().write_at(position, buffers, length)

    def truncate(self, size):
        if self._disk.fault_on_truncate:
            raise OSError(errno.EIO, "injected", self.path)
        super().truncate(size)

    def sync(self):
        if self._disk.fault_on_sync:
            raise OSError(errno.EIO, "injected", self.path)
        super().sync()


class FaultyDisk(RealDisk):
    """A disk that is full or broken when told to be."""

    __slots__ = ("fault", "fault_on_sync", "fault_on_truncate", "kind")

    def __init__(self):
        super().__init__(max_open=16)
        self.fault = None
        self.kind = ".log"
        self.fault_on_truncate = self.fault_on_sync = False

    def file(self, path):
        return FaultyFile(self, path)

    def create(self, path):
        super().create(path).close()
        return FaultyFile(self, path)


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_append_leaves_no_trace(kit, disk, code):
    kit.create()
    kit.append(pid=1, count=2)
    size = kit.log.segments[0].file.size()
    disk.fault = code
    with pytest.raises(KafkaStorageError) as raised:
        kit.append(pid=1, seq=2)
    assert raised.value.code == 56
    assert raised.value.__cause__.errno == code
    assert kit.log.failed is None
    assert kit.log.segments[0].file.size() == size
    assert kit.log.producers.get(1).last_sequence == 1
    disk.fault = None
    assert kit.append(pid=1, seq=2).first_offset == 2
    kit.load()
    assert kit.offsets() == [0, 1, 2]


def test_a_write_that_cannot_be_taken_back_fails_the_log_for_good(kit, disk):
    kit.create()
    kit.append()
    disk.fault, disk.fault_on_truncate = errno.EIO, True
    with pytest.raises(KafkaStorageError):
        kit.append()
    disk.fault, disk.fault_on_truncate = None, False
    assert "cannot be cut back" in kit.log.failed
    for use in (kit.append, lambda: kit.log.read(0, 1, 1), lambda: kit.log.roll(NOW), lambda: kit.log.truncate_to(0)):
        with pytest.raises(KafkaStorageError, match="cannot be cut back"):
            use()
    kit.load()
    assert kit.offsets() == [0]


def test_a_full_disk_does_not_stop_an_index_that_can_wait(kit, disk):
    kit.create(index_interval_bytes=1)
    disk.fault, disk.kind = errno.ENOSPC, "index"
    for _ in range(600):
        kit.append()
    assert kit.log.failed is None
    assert kit.offsets() == list(range(600))
    disk.fault = None
    kit.log.close()
    kit.load(clean=True)
    assert kit.offsets() == list(range(600))


def test_a_failed_fsync_is_never_tried_again(kit, disk):
    kit.create()
    kit.append()
    disk.fault_on_sync = True
    job = kit.log.pending_sync()
    job.run()
    with pytest.raises(KafkaStorageError, match="force the log"):
        kit.log.synced(job)
    assert kit.log.recovery_point == 0
    disk.fault_on_sync = False
    assert kit.log.pending_sync() is None
    with pytest.raises(KafkaStorageError):
        kit.append()


def test_a_log_that_cannot_be_created_says_why(kit, disk, tmp_path):
    (tmp_path / "orders-3").write_text("in the way")
    with pytest.raises(KafkaStorageError, match="cannot create the log"):
        kit.create()


def test_a_file_that_vanished_is_a_storage_error(kit, disk):
    kit.create()
    kit.append()
    segment = kit.log.segments[0]
    segment.file.close()
    disk.unlink(segment.file.path)
    with pytest.raises(KafkaStorageError, match="cannot read"):
        kit.log.read(0, 100, 1)
