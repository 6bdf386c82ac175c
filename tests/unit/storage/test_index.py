from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.storage.disk import RealDisk
from kavka.storage.index import OffsetIndex, TimeIndex


@pytest.fixture
def offset_index(disk, tmp_path):
    return OffsetIndex(disk.create(str(tmp_path / "x.index")), 100, 0)


@pytest.fixture
def time_index(disk, tmp_path):
    return TimeIndex(disk.create(str(tmp_path / "x.timeindex")), 100, 0)


def test_entries_are_kafkas_eight_bytes(offset_index, tmp_path):
    offset_index.append(105, 4096)
    offset_index.flush()
    assert (tmp_path / "x.index").read_bytes() == struct.pack(">ii", 5, 4096)


def test_time_entries_are_kafkas_twelve_bytes(time_index, tmp_path):
    time_index.append(1_700_000_000_000, 105)
    time_index.flush()
    assert (tmp_path / "x.timeindex").read_bytes() == struct.pack(">qi", 1_700_000_000_000, 5)


def test_a_lookup_finds_the_entry_at_or_before_an_offset(offset_index):
    for offset, position in ((110, 1000), (120, 2000), (130, 3000)):
        offset_index.append(offset, position)
    assert [offset_index.lookup(offset) for offset in (100, 109, 110, 115, 130, 999)] == [0, 0, 1000, 1000, 3000, 3000]
    assert offset_index.last() == (130, 3000)


def test_an_empty_index_points_to_the_start(offset_index, time_index):
    assert offset_index.lookup(500) == 0
    assert offset_index.last() == (100, 0)
    assert time_index.lookup(5) == 100
    assert time_index.last() == (-1, 100)
    assert offset_index.offset_after(10) is None


def test_only_growing_timestamps_are_kept(time_index):
    time_index.append(50, 101)
    time_index.append(40, 102)
    time_index.append(50, 103)
    time_index.append(60, 104)
    assert len(time_index) == 2
    assert time_index.last() == (60, 104)
    assert time_index.lookup(55) == 101


def test_entries_reach_the_file_when_the_buffer_is_full(offset_index, tmp_path):
    for number in range(512):
        offset_index.append(101 + number, number * 10)
    assert (tmp_path / "x.index").stat().st_size == 4096
    assert len(offset_index) == 512


def test_the_offset_after_a_position_is_that_of_the_next_entry(offset_index):
    for offset, position in ((110, 1000), (120, 2000)):
        offset_index.append(offset, position)
    assert [offset_index.offset_after(p) for p in (0, 1000, 1001, 2000, 2001)] == [110, 110, 120, 120, None]


def test_resetting_forgets_what_is_on_disk_too(offset_index, tmp_path):
    offset_index.append(110, 1000)
    offset_index.flush()
    offset_index.append(120, 2000)
    offset_index.reset()
    assert len(offset_index) == 0
    assert (tmp_path / "x.index").stat().st_size == 0


def test_a_torn_last_entry_does_not_count(disk, tmp_path):
    (tmp_path / "t.index").write_bytes(struct.pack(">ii", 5, 10) + b"\0\0\0")
    path = str(tmp_path / "t.index")
    assert OffsetIndex.sized(disk, path) == 1
    assert OffsetIndex.sized(disk, str(tmp_path / "none")) == 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4000),
    st.lists(st.integers(0, 200_000), max_size=20),
    st.integers(0, 100_000),
)
def test_file_and_buffer_together_answer_like_a_list(tmp_path_factory, steps, targets, cut):
    index = OffsetIndex(RealDisk().create(str(tmp_path_factory.mktemp("i") / "i.index")), 7, 0)
    entries = [(7, 0)]
    for step in steps:
        offset, position = entries[-1]
        entries.append((offset + step, position + step * 3))
        index.append(*entries[-1])
    for _ in range(2):
        for target in targets:
            assert index.lookup(7 + target) == max(p for o, p in entries if o <= 7 + target)
            after = [o for o, p in entries[1:] if p >= target]
            assert index.offset_after(target) == (after[0] if after else None)
        index.truncate_to(cut)
        entries = [entries[0]] + [entry for entry in entries[1:] if entry[0] < cut]
        assert len(index) == len(entries) - 1
