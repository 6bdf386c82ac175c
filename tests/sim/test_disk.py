"""The simulated disk: what was forced stays, what was not may go, and nothing else happens."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.testing.sim.disk import Drive, SimDisk


def disk_of(drive: Drive) -> SimDisk:
    return SimDisk(drive, lambda seconds: None, lambda: 1_000)


@pytest.fixture
def drive() -> Drive:
    return Drive(1 << 30)


@pytest.fixture
def disk(drive: Drive) -> SimDisk:
    found = disk_of(drive)
    found.mkdir("/data")
    found.sync_filesystem("/")
    return found


def test_what_was_forced_survives_and_what_was_not_may_not(drive: Drive, disk: SimDisk) -> None:
    file = disk.create("/data/log")
    file.write_at(0, [b"safe"], 4)
    file.sync()
    disk.fsync_dir("/data")
    file.write_at(4, [b" and ", b"not"], 8)
    left = set()
    for seed in range(200):
        copy = disk_of(drive_like(drive))
        copy.drive.lose_power(random.Random(seed))
        left.add(copy.read_file("/data/log"))
    assert all(content.startswith(b"safe") for content in left)
    assert {b"safe", b"safe and not"} <= left
    assert any(4 < len(content) < 12 for content in left)  # torn
    assert any(content.endswith(b"\0") for content in left)  # the length came through, the bytes did not


def drive_like(drive: Drive) -> Drive:
    import copy

    return copy.deepcopy(drive)


def test_a_name_that_was_not_forced_may_go_and_take_the_file_with_it(drive: Drive, disk: SimDisk) -> None:
    disk.create("/data/new").sync()
    found = set()
    for seed in range(50):
        other = drive_like(drive)
        other.lose_power(random.Random(seed))
        found.add(disk_of(other).exists("/data/new"))
    assert found == {True, False}


def test_a_renaming_is_undone_as_a_whole(drive: Drive, disk: SimDisk) -> None:
    disk.replace_file("/data/old", b"1")
    disk.rename("/data/old", "/data/new")
    for seed in range(20):
        other = drive_like(drive)
        other.lose_power(random.Random(seed))
        assert len(disk_of(other).listdir("/data")) == 1


def test_a_file_that_is_replaced_is_the_old_or_the_new_one(drive: Drive, disk: SimDisk) -> None:
    disk.replace_file("/data/state", b"1")
    disk.replace_file("/data/state", b"22")
    drive.lose_power(random.Random(0))
    assert disk_of(drive).read_file("/data/state") == b"22"
    assert disk_of(drive).listdir("/data") == ["state"]


def test_a_full_disk_takes_what_fits_and_says_so(drive: Drive, disk: SimDisk) -> None:
    drive.capacity = drive.used + 3
    file = disk.create("/data/log")
    with pytest.raises(OSError, match="No space left") as caught:
        file.write_at(0, [b"four"], 4)
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(0, 10) == b"fou"
    disk.unlink("/data/log")
    assert disk.free_bytes("/data") == 3


def test_a_file_that_was_removed_is_read_on_by_who_has_it_pinned(disk: SimDisk) -> None:
    disk.write_file("/data/log", b"bytes")
    file = disk.file("/data/log")
    file.pin()
    file.unlink()
    assert file.read_at(0, 5) == b"bytes"
    file.unpin()
    with pytest.raises(FileNotFoundError):
        file.read_at(0, 5)


def test_a_directory_is_moved_with_all_in_it(disk: SimDisk) -> None:
    disk.mkdir("/data/a-0")
    disk.write_file("/data/a-0/log", b"1")
    file = disk.file("/data/a-0/log")
    disk.rename("/data/a-0", "/data/a-0.x-delete")
    file.moved("/data/a-0.x-delete/log")
    assert file.read_at(0, 9) == b"1"
    disk.remove_tree("/data/a-0.x-delete")
    assert disk.listdir("/data") == []


def test_a_lock_is_held_once(disk: SimDisk) -> None:
    lock = disk.lock("/data/.lock")
    assert lock is not None
    assert disk.lock("/data/.lock") is None
    lock.release()
    assert disk.lock("/data/.lock") is not None


@given(
    writes=st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=10), st.booleans()), max_size=12),
    seed=st.integers(0, 2**32),
)
def test_what_is_left_begins_with_what_was_forced_last(writes: list[tuple[int, bytes, bool]], seed: int) -> None:
    drive = Drive(1 << 30)
    disk = disk_of(drive)
    file = disk.create("/log")
    disk.fsync_dir("/")
    safe, model = b"", bytearray()
    for position, data, sync in writes:
        file.write_at(position, [data], len(data))
        model.extend(bytes(max(0, position - len(model))))
        model[position : position + len(data)] = data
        assert disk.read_file("/log") == bytes(model)
        if sync:
            file.sync()
            safe = bytes(model)
    drive.lose_power(random.Random(seed))
    if not writes or writes[-1][2]:
        assert disk_of(drive).read_file("/log") == safe


def test_a_disk_that_fails_refuses_so_many_changes_and_no_more() -> None:
    drive = Drive(1 << 20)
    disk = SimDisk(drive, lambda seconds: None, lambda: 0)
    disk.write_file("/a", b"before")
    drive.refusals = 2.0
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            disk.write_file("/a", b"refused")
        assert disk.read_file("/a") == b"before"
    disk.write_file("/a", b"after")
    assert disk.read_file("/a") == b"after"
