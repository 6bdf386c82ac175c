"""Base offsets, which no checksum covers: a log whose batches do not follow each other is not served."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kavka.kernels.batches import scan, scan_prefix
from kavka.model.errors import CorruptMessage, KafkaStorageError
from kavka.storage.segments import CHECKED_BYTES

BATCHES = 40
BITS = range(64)


@pytest.fixture
def stopped(kit):
    """A log of several segments and index entries after a clean stop."""
    kit.create(segment_bytes=800, index_interval_bytes=200)
    for number in range(BATCHES):
        kit.append(count=1 + number % 3, timestamp=1_700_000_000_000 + number)
    assert len(kit.log.segments) > 2
    kit.end = kit.log.log_end_offset
    kit.log.close()
    return kit


def batches_of(kit):
    """The file and the position of each batch."""
    return [(path, info) for path in sorted(Path(kit.path).glob("*.log")) for info in scan(path.read_bytes())]


def flip(path, place, bit):
    data = bytearray(path.read_bytes())
    data[place + 7 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def readable(kit):
    """What is read batch after batch, as clients do it: offsets, or None if the log says that it is damaged."""
    found: list[int] = []
    offset = kit.log.log_start_offset
    while offset < kit.end:
        piece = kit.log.read(offset, 300, kit.log.log_end_offset)
        assert piece is not None
        for info in scan_prefix(piece.file.read_at(piece.position, piece.length))[0]:
            if info.last_offset >= offset:
                found += range(info.base_offset, info.last_offset + 1)
                offset = info.last_offset + 1
    return found


def load_and_read(kit):
    kit.load(clean=True, recovery_point=kit.end)
    if kit.log.log_end_offset < kit.end:  # what whoever loads it compares
        raise KafkaStorageError("ends at offset")
    readable(kit)


def test_a_whole_log_is_read_and_checked_once(stopped):
    stopped.load(clean=True)
    assert readable(stopped) == list(range(stopped.end))
    assert [segment.unchecked for segment in stopped.log.segments] == [0] * len(stopped.log.segments)
    stopped.append(count=2)
    assert stopped.log.read(stopped.end, 1000, stopped.log.log_end_offset) is not None


def test_no_flipped_bit_of_a_base_offset_is_served(stopped):
    batches = batches_of(stopped)
    every = [(path, info, bit) for path, info in batches for bit in BITS]
    for path, info, bit in every[::7]:
        flip(path, info.position, bit)
        with pytest.raises(KafkaStorageError, match=r"is damaged|ends at offset"):
            load_and_read(stopped)
        stopped.log.close(sync=False)
        flip(path, info.position, bit)


def test_the_damaged_batch_is_not_served_to_who_asks_for_it_alone(stopped, caplog):
    path, info = batches_of(stopped)[20]
    for bit in (0, 3, 40):
        flip(path, info.position, bit)
        stopped.load(clean=True, recovery_point=stopped.end)
        for _ in range(2):
            with pytest.raises(KafkaStorageError, match="is damaged") as raised:
                stopped.log.read(info.base_offset, 1, stopped.end)
            assert raised.value.code == CorruptMessage.code
        stopped.log.close(sync=False)
        flip(path, info.position, bit)
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


def test_a_log_with_gaps_is_served(kit):
    kit.create(index_interval_bytes=100)
    for offset in (0, 5, 6, 100, 1 << 20):
        kit.follow(kit.batch(base_offset=offset, epoch=0))
    kit.end = kit.log.log_end_offset
    kit.log.close()
    kit.load(clean=True, recovery_point=kit.end)
    assert readable(kit) == [0, 5, 6, 100, 1 << 20]


def test_what_was_there_before_is_read_in_pieces_until_it_is_checked(kit):
    kit.create()
    while kit.log.size_bytes < 3 * CHECKED_BYTES:
        kit.append(value=bytes(10_000))
    end = kit.log.log_end_offset
    kit.log.close()
    kit.load(clean=True, recovery_point=end)
    lengths = []
    for _ in range(2):
        piece = kit.log.read(0, 1 << 20, end)
        lengths.append(piece.length)
        kit.end = end
        readable(kit)
    assert lengths == [CHECKED_BYTES, kit.log.size_bytes]


def test_zeros_after_what_was_written_are_cut_if_preallocation_was_turned_off_meanwhile(kit):
    kit.create(preallocate=True)
    kit.append()
    kit.log.config = replace(kit.config, preallocate=False)
    kit.log.roll(kit.now)
    kit.append()
    kit.log.close()
    kit.load(clean=True, recovery_point=2)
    kit.end = 2
    assert readable(kit) == [0, 1]


def test_a_batch_that_is_larger_than_a_piece_is_given_to_who_has_room_for_it(kit):
    kit.create()
    kit.append(value=bytes(2 * CHECKED_BYTES))
    kit.log.close()
    kit.load(clean=True, recovery_point=1)
    piece = kit.log.read(0, 1 << 20, 1, min_one=False)
    assert piece is not None
    assert piece.length == kit.log.size_bytes
    assert kit.log.read(0, CHECKED_BYTES, 1, min_one=False) is None


@pytest.mark.parametrize("recovery_point", [0, 20, 41])
def test_an_older_note_of_the_end_is_no_damage(stopped, recovery_point):
    starts = {info.base_offset for _, info in batches_of(stopped)} | {0}
    stopped.load(clean=True, recovery_point=max(start for start in starts if start <= recovery_point))
    assert stopped.log.log_end_offset == stopped.end


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_last_batch(path):
    data = path.read_bytes()
    path.write_bytes(data[: scan(data)[-1].position])


@pytest.mark.parametrize(
    "damage",
    [
        without_last_batch,
        cut,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        Path.unlink,
    ],
)
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("indexed", [True, False])
def test_what_is_gone_of_a_segment_is_not_skipped(stopped, damage, number, indexed):
    path = sorted(Path(stopped.path).glob("*.log"))[number]
    damage(path)
    if not indexed:  # a small segment has only the entry of its largest timestamp
        path.with_suffix(".index").write_bytes(b"")
    with pytest.raises(KafkaStorageError, match=r"is damaged|is missing|ends at offset"):
        load_and_read(stopped)


@pytest.mark.parametrize("compact", [False, True])
def test_a_batch_that_is_gone_is_missed_even_if_it_was_no_later_than_others(kit, compact):
    kit.create(segment_bytes=250, index_interval_bytes=4096, compact=compact)
    for number in range(9):
        kit.append(value=b"%d" % number, key=b"%d" % number)
    kit.end = kit.log.log_end_offset
    kit.log.close()
    without_last_batch(sorted(Path(kit.path).glob("*.log"))[1])
    with pytest.raises(KafkaStorageError, match="is damaged"):
        load_and_read(kit)


def test_a_damaged_time_index_hides_nothing_that_is_there(kit):
    kit.create(compact=True)
    for offset in (0, 1, 2):
        kit.follow(kit.batch(base_offset=offset, epoch=0))
    kit.log.roll(kit.now, 10)
    kit.follow(kit.batch(base_offset=10, epoch=0))
    kit.end = kit.log.log_end_offset
    kit.log.close()
    path = sorted(Path(kit.path).glob("*.timeindex"))[0]
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    kit.load(clean=True, recovery_point=kit.end)
    assert readable(kit) == [0, 1, 2, 10]


def test_what_compaction_has_left_out_at_the_end_of_a_segment_is_skipped_and_told(kit, caplog):
    kit.create(index_interval_bytes=100)
    for offset in (0, 1, 2):
        kit.follow(kit.batch(base_offset=offset, epoch=0))
    kit.log.roll(kit.now, 10)
    kit.follow(kit.batch(base_offset=10, epoch=0))
    kit.end = kit.log.log_end_offset
    kit.log.close()
    kit.load(clean=True, recovery_point=kit.end)
    assert kit.log.read(5, 1000, kit.end) is not None
    assert readable(kit) == [0, 1, 2, 10]
    assert ["ends before offset 5" in record.getMessage() for record in caplog.records] == [True]
