"""Numbered lines in files: what was written is read again, and what was not finished is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kavka.storage.disk import RealDisk
from kavka.storage.spool import Place, Spool


def opened(folder: Path, segment_bytes: int = 1 << 20, retention_bytes: int = -1) -> Spool:
    spool = Spool(RealDisk(), str(folder), segment_bytes, retention_bytes)
    spool.open(lambda: "some-id")
    return spool


def everything(spool: Spool, max_bytes: int = 1 << 16) -> list[tuple[int, object]]:
    place, found = spool.place_of(0), list[tuple[int, object]]()
    while True:
        lines, after = spool.read(place, max_bytes)
        if not lines and after == place:
            return found
        found += [(number, json.loads(line)["n"]) for number, line in lines]
        place = after


def fill(spool: Spool, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        spool.append([b'"n":%d}' % number])


def test_lines_are_numbered_and_read_in_order_over_files_and_restarts(tmp_path: Path) -> None:
    spool = opened(tmp_path, segment_bytes=100)
    fill(spool, 20)
    again = opened(tmp_path, segment_bytes=100)
    assert (again.id, again.next) == ("some-id", 21)
    fill(again, 5, start=20)
    assert everything(again, max_bytes=64) == [(number + 1, number) for number in range(25)]
    assert len(list(tmp_path.glob("*.jsonl"))) > 3


@pytest.mark.parametrize("torn", [b'{"seq":4', b'{"seq":4,"n":3}', b"\0" * 50, b"\0" * 50 + b"\n", b'{"seq":4,"n\n'])
def test_what_was_not_finished_is_cut_off_and_its_number_used_again(tmp_path: Path, torn: bytes) -> None:
    fill(opened(tmp_path), 3)
    (file,) = tmp_path.glob("*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole + torn)
    spool = opened(tmp_path)
    assert file.read_bytes() == whole
    fill(spool, 1, start=3)
    assert everything(spool) == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_a_file_of_which_nothing_was_finished_goes_on_with_the_number_of_its_name(tmp_path: Path) -> None:
    spool = opened(tmp_path, segment_bytes=10)
    fill(spool, 2)
    last = max(tmp_path.glob("*.jsonl"))
    last.write_bytes(b"{")
    assert opened(tmp_path).next == 2


def test_a_line_that_could_not_be_written_is_overwritten_by_the_next(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    fill(spool, 1)
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("ab") as half:
        half.write(b'{"seq":2,"n":')
    fill(spool, 1, start=7)
    assert everything(spool) == [(1, 0), (2, 7)]


def test_old_files_go_but_none_that_somebody_still_needs(tmp_path: Path) -> None:
    spool = opened(tmp_path, segment_bytes=60, retention_bytes=150)
    fill(spool, 40)
    spool.expire(0)
    assert everything(spool)[0] == (1, 0)
    spool.expire(39)
    assert spool.size <= 150 + 60
    left = everything(spool)
    assert left[-1] == (40, 39)
    assert left[0][0] > 1
    assert spool.read(Place(1, 0), 1000)[0][0][0] == left[0][0]


def test_syncing_forces_what_is_written(tmp_path: Path) -> None:
    spool = opened(tmp_path, segment_bytes=60)
    fill(spool, 5)
    spool.syncing().job()
    spool.syncing().job()
    assert everything(spool)[-1] == (5, 4)


@pytest.mark.parametrize("more", [0, 1, 1 << 20])
def test_a_power_cut_may_leave_a_long_tail_of_zeros(tmp_path: Path, more: int) -> None:
    fill(opened(tmp_path), 3)
    (file,) = tmp_path.glob("*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole + b"\0" * (2 * (1 << 20) + more))
    assert opened(tmp_path).next == 4
    assert file.read_bytes() == whole
