from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kavka.storage.disk import RealDisk


def test_what_is_written_in_pieces_is_read_as_one(disk, tmp_path):
    file = disk.create(str(tmp_path / "a"))
    file.write_at(0, [b"one", memoryview(b"two"), bytearray(b"three")], 11)
    file.write_at(3, [b"TWO"], 3)
    assert file.read_at(0, 100) == b"oneTWOthree"
    assert file.read_at(9, 2) == b"ee"
    assert file.size() == 11


def test_more_buffers_than_one_system_call_takes_are_still_written(disk, tmp_path):
    file = disk.create(str(tmp_path / "a"))
    file.write_at(0, [b"ab"] * 3000, 6000)
    assert file.read_at(0, 10_000) == b"ab" * 3000


def test_a_file_is_opened_when_it_is_first_used(disk, tmp_path):
    (tmp_path / "a").write_bytes(b"hello")
    file = disk.file(str(tmp_path / "a"))
    assert disk.open_files == 0
    assert file.read_at(0, 5) == b"hello"
    assert disk.open_files == 1


def test_descriptors_stay_within_the_limit_and_reopen_by_themselves(tmp_path):
    disk = RealDisk(max_open=4)
    files = [disk.create(str(tmp_path / str(number))) for number in range(20)]
    for number, file in enumerate(files):
        file.write_at(0, [bytes([number])], 1)
    assert disk.open_files <= 5
    assert [file.read_at(0, 1)[0] for file in files] == list(range(20))
    assert disk.open_files <= 5


def test_a_file_that_nobody_has_any_more_gives_its_descriptor_back(disk, tmp_path):
    for number in range(10):
        disk.create(str(tmp_path / str(number))).write_at(0, [b"x"], 1)
    assert disk.open_files == 0


def test_a_file_that_is_closed_and_used_again_counts_once(disk, tmp_path):
    file = disk.create(str(tmp_path / "a"))
    for _ in range(10):
        file.write_at(0, [b"x"], 1)
        file.close()
    assert disk.open_files == 0
    file.read_at(0, 1)
    assert disk.open_files == 1


def test_a_pinned_descriptor_is_never_taken_back(tmp_path):
    disk = RealDisk(max_open=2)
    pinned = disk.create(str(tmp_path / "pinned"))
    pinned.pin()
    fd = pinned.fileno()
    for number in range(10):
        disk.create(str(tmp_path / str(number)))
    assert pinned.fileno() == fd
    os.fstat(fd)
    pinned.unpin()


def test_a_removed_file_is_readable_while_it_is_pinned_and_gone_after(disk, tmp_path):
    file = disk.create(str(tmp_path / "a"))
    file.write_at(0, [b"still here"], 10)
    file.pin()
    file.unlink()
    assert not (tmp_path / "a").exists()
    assert os.pread(file.fileno(), 10, 0) == b"still here"
    file.unpin()
    with pytest.raises(FileNotFoundError):
        file.fileno()


def test_closing_a_pinned_file_waits_for_the_unpin(disk, tmp_path):
    file = disk.create(str(tmp_path / "a"))
    file.pin()
    file.close()
    os.fstat(file.fileno())
    file.unpin()


def test_a_renamed_file_is_found_under_its_new_name_after_its_descriptor_was_taken(disk, tmp_path):
    file = disk.create(str(tmp_path / "a"))
    file.write_at(0, [b"x"], 1)
    file.rename(str(tmp_path / "b"))
    file.close()
    assert file.read_at(0, 1) == b"x"
    assert file.path == str(tmp_path / "b")


def test_replacing_a_file_leaves_no_temporary_one(disk, tmp_path):
    path = str(tmp_path / "checkpoint")
    disk.replace_file(path, b"old")
    disk.replace_file(path, b"new")
    assert disk.read_file(path) == b"new"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_a_large_file_is_read_whole(disk, tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "a").write_bytes(data)
    assert disk.read_file(str(tmp_path / "a")) == data


def test_a_lock_excludes_even_the_same_process_until_it_is_released(disk, tmp_path):
    path = str(tmp_path / ".lock")
    lock = disk.lock(path)
    assert lock is not None
    assert disk.lock(path) is None
    assert RealDisk().lock(path) is None
    lock.release()
    again = disk.lock(path)
    assert again is not None
    again.release()


def test_unlinking_what_is_not_there_is_nothing(disk, tmp_path):
    disk.unlink(str(tmp_path / "nothing"))
    assert not disk.exists(str(tmp_path / "nothing"))


def test_a_directory_is_removed_with_all_in_it(disk, tmp_path):
    disk.mkdir(str(tmp_path / "a" / "b"))
    disk.write_file(str(tmp_path / "a" / "b" / "c"), b"x")
    assert disk.is_dir(str(tmp_path / "a"))
    disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a"))


def test_making_a_directory_where_a_file_is_fails(disk, tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(FileExistsError):
        disk.mkdir(str(tmp_path / "a"))


def test_the_file_system_can_be_forced_and_measured(disk, tmp_path):
    disk.sync_filesystem(str(tmp_path))
    disk.fsync_dir(str(tmp_path))
    assert 0 < disk.free_bytes(str(tmp_path)) <= disk.total_bytes(str(tmp_path))


def test_modification_times_can_be_read_and_set(disk, tmp_path):
    path = str(tmp_path / "a")
    disk.write_file(path, b"x")
    disk.set_modified_ms(path, 1_234_567)
    assert disk.modified_ms(path) == 1_234_567


def test_a_full_disk_is_an_error_that_says_so():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    file = RealDisk().file("/dev/full")
    with pytest.raises(OSError) as raised:
        file.write_at(0, [b"x", b"y"], 2)
    assert raised.value.errno == errno.ENOSPC
