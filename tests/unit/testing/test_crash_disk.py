from __future__ import annotations

import os
import random

import pytest

from kavka.testing.crash_disk import CrashDisk, cut_back


class Always(random.Random):
    """Undoes all that may be undone, and tears nothing."""

    def randint(self, a, b):
        return a


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return str(tmp_path / "root")


@pytest.fixture
def journal(tmp_path):
    return str(tmp_path / "journal")


@pytest.fixture
def disk(root, journal):
    return CrashDisk(journal, root)


def crash(journal, root, rng=None):
    return cut_back(journal, root, rng or Always())


def text(path):
    with open(path) as file:
        return file.read()


def write(file, data, position=0):
    file.write_at(position, [data], len(data))


def test_bytes_that_were_not_forced_are_lost(disk, root, journal):
    file = disk.create(f"{root}/a")
    write(file, b"durable")
    file.sync()
    disk.fsync_dir(root)
    write(file, b" lost", 7)
    notes = crash(journal, root)
    assert text(f"{root}/a") == "durable"
    assert notes == [f"cut {root}/a from 12 to 7"]


def test_names_that_were_not_forced_are_lost(disk, root, journal):
    write(disk.create(f"{root}/a"), b"x")
    disk.mkdir(f"{root}/d")
    write(disk.create(f"{root}/d/b"), b"x")
    crash(journal, root)
    assert os.listdir(root) == []


def test_a_name_may_be_durable_while_its_bytes_are_not(disk, root, journal):
    write(disk.create(f"{root}/a"), b"x")
    disk.fsync_dir(root)
    crash(journal, root)
    assert os.path.getsize(f"{root}/a") == 0


def test_a_rename_over_a_file_brings_the_old_one_back(disk, root, journal):
    disk.replace_file(f"{root}/a", b"old")
    disk.write_file(f"{root}/b", b"new")
    disk.rename(f"{root}/b", f"{root}/a")
    crash(journal, root)
    assert text(f"{root}/a") == "old"
    assert os.listdir(root) == ["a"]


def test_a_replaced_file_is_the_new_one(disk, root, journal):
    disk.replace_file(f"{root}/a", b"old")
    disk.replace_file(f"{root}/a", b"new")
    crash(journal, root)
    assert text(f"{root}/a") == "new"


def test_a_removed_file_comes_back_with_what_was_durable_of_it(disk, root, journal):
    file = disk.create(f"{root}/a")
    write(file, b"durable")
    file.sync()
    disk.fsync_dir(root)
    write(file, b" lost", 7)
    file.unlink()
    crash(journal, root)
    assert text(f"{root}/a") == "durable"


def test_writing_a_whole_file_in_place_loses_what_it_held(disk, root, journal):
    disk.replace_file(f"{root}/a", b"old")
    disk.write_file(f"{root}/a", b"new")
    crash(journal, root)
    assert text(f"{root}/a") == ""


def test_a_cut_below_what_was_forced_counts(disk, root, journal):
    file = disk.create(f"{root}/a")
    write(file, b"0123456789")
    file.sync()
    disk.fsync_dir(root)
    file.truncate(4)
    write(file, b"abcdef", 4)
    crash(journal, root)
    assert text(f"{root}/a") == "0123"


def test_a_renamed_directory_goes_back_with_its_files(disk, root, journal):
    disk.mkdir(f"{root}/d")
    file = disk.create(f"{root}/d/a")
    write(file, b"durable")
    file.sync()
    disk.fsync_dir(f"{root}/d")
    disk.fsync_dir(root)
    disk.rename(f"{root}/d", f"{root}/e")
    crash(journal, root)
    assert text(f"{root}/d/a") == "durable"
    assert os.listdir(root) == ["d"]


def test_forcing_the_file_system_makes_everything_durable(disk, root, journal):
    disk.mkdir(f"{root}/d")
    write(disk.create(f"{root}/d/a"), b"x")
    disk.sync_filesystem(root)
    write(disk.create(f"{root}/d/b"), b"x")
    crash(journal, root)
    assert os.listdir(f"{root}/d") == ["a"]
    assert text(f"{root}/d/a") == "x"


def test_what_was_there_before_is_durable(root, journal):
    with open(f"{root}/a", "w") as file:
        file.write("before")
    CrashDisk(journal, root)
    assert crash(journal, root) == []
    assert text(f"{root}/a") == "before"


def test_one_file_is_torn_between_what_is_durable_and_what_was_written(disk, root, journal):
    file = disk.create(f"{root}/a")
    write(file, b"0123")
    file.sync()
    disk.fsync_dir(root)
    write(file, b"456789", 4)
    crash(journal, root, random.Random(3))
    assert 4 <= os.path.getsize(f"{root}/a") <= 10


def test_a_torn_last_line_of_the_journal_is_ignored(disk, root, journal):
    disk.replace_file(f"{root}/a", b"x")
    with open(journal, "ab") as file:
        file.write(b'{"op": "unl')
    crash(journal, root)
    assert os.listdir(root) == ["a"]
