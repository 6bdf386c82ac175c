from __future__ import annotations

from pathlib import Path

import pytest

from kavka.kernels.batches import scan
from kavka.model.errors import KafkaStorageError
from kavka.records.batch import records
from kavka.records.builder import BatchBuilder
from kavka.storage.cleaning import assess, make_plan, take_in
from kavka.storage.compaction import compact

NOW = 1_700_000_000_000
DAY = 86_400_000
BUFFER = 1 << 16


def put(kit, *pairs, **batch):
    """One batch of several keys and values."""
    builder = BatchBuilder(
        producer_id=batch.get("pid", -1),
        producer_epoch=batch.get("pepoch", 0) if "pid" in batch else -1,
        base_sequence=batch.get("seq", -1),
        transactional=batch.get("txn", False),
        codec=batch.get("codec", 0),
    )
    for key, value in pairs:
        builder.append(key, value, batch.get("timestamp", NOW))
    data = builder.build()
    return kit.append(data)


def clean(kit, now=NOW, dirty=None, buffer=BUFFER, roll=True):
    """Roll, compact and swap in; returns the clean offset."""
    if roll:
        kit.log.roll(now)
    cleanable = assess(kit.log, dirty, kit.log.log_end_offset, now)
    plan = make_plan(cleanable, now, buffer)
    result = compact(kit.disk, plan)
    return take_in(kit.log, plan, result, now)


def values(kit):
    return [(record.offset, record.key, record.value) for record in kit.records()]


@pytest.fixture
def kit(kit):
    kit.create(compact=True, delete=False)
    return kit


def test_the_last_value_of_each_key_stays_at_its_offset(kit):
    put(kit, (b"a", b"1"), (b"b", b"1"))
    put(kit, (b"a", b"2"))
    put(kit, (b"c", b"1"))
    assert clean(kit) == 4
    assert values(kit) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]
    assert kit.log.log_end_offset == 4
    assert kit.append().first_offset == 4


def test_a_batch_that_loses_records_keeps_its_offsets_and_sequence(kit):
    put(kit, (b"a", b"1"), (b"b", b"1"), (b"a", b"1"), pid=7, seq=10)
    put(kit, (b"b", b"2"), pid=7, seq=13)
    clean(kit)
    first = kit.batches()[0]
    assert (first.base_offset, first.last_offset, first.count) == (0, 2, 1)
    assert (first.base_sequence, first.last_sequence, first.producer_id) == (10, 12, 7)


def test_a_batch_that_keeps_all_is_copied_byte_for_byte(kit):
    put(kit, (b"a", b"1"), (b"b", b"1"))
    before = Path(kit.log.segments[0].file.path).read_bytes()
    clean(kit)
    assert Path(kit.log.segments[0].file.path).read_bytes() == before


def test_records_without_a_key_go(kit):
    put(kit, (None, b"1"), (b"a", b"1"))
    clean(kit)
    assert values(kit) == [(1, b"a", b"1")]


@pytest.mark.parametrize("codec", range(5))
def test_compressed_batches_stay_compressed(kit, codec):
    put(kit, (b"a", b"1" * 100), (b"b", b"1" * 100), codec=codec)
    put(kit, (b"a", b"2"))
    clean(kit)
    assert values(kit) == [(1, b"b", b"1" * 100), (2, b"a", b"2")]
    assert kit.batches()[0].codec == codec


def test_headers_and_times_survive(kit):
    builder = BatchBuilder()
    builder.append(b"a", b"1", 5)
    builder.append(b"b", b"1", 7, (("h", b"x"), ("n", None)))
    kit.append(builder.build())
    put(kit, (b"a", b"2"))
    clean(kit)
    record = kit.records()[0]
    assert (record.timestamp, record.headers) == (7, (("h", b"x"), ("n", None)))


class TestTombstones:
    def test_a_tombstone_gets_a_horizon_and_goes_after_it(self, kit):
        put(kit, (b"a", b"1"))
        put(kit, (b"a", None), (b"b", b"1"))
        put(kit, (b"z", b"1"))
        clean(kit, NOW)
        assert values(kit) == [(1, b"a", None), (2, b"b", b"1"), (3, b"z", b"1")]
        marked = kit.batches()[0]
        assert marked.has_delete_horizon
        assert marked.base_timestamp == NOW + DAY
        assert [record.timestamp for record in kit.records()][:2] == [NOW, NOW]
        clean(kit, NOW + DAY - 1)
        assert values(kit)[0] == (1, b"a", None)
        clean(kit, NOW + DAY)
        assert values(kit) == [(2, b"b", b"1"), (3, b"z", b"1")]

    def test_a_horizon_does_not_move_once_it_is_set(self, kit):
        put(kit, (b"a", None), (b"b", b"1"))
        put(kit, (b"z", b"1"))
        clean(kit, NOW)
        put(kit, (b"b", b"2"))
        clean(kit, NOW + 1000)
        first = kit.batches()[0]
        assert (first.count, first.base_timestamp) == (1, NOW + DAY)

    def test_an_overwritten_tombstone_goes_at_once(self, kit):
        put(kit, (b"a", None))
        put(kit, (b"a", b"1"))
        clean(kit)
        assert values(kit) == [(1, b"a", b"1")]


class TestProducers:
    def test_an_active_producers_last_batch_stays_empty(self, kit):
        put(kit, (b"a", b"1"), pid=7, seq=0)
        put(kit, (b"a", b"2"), pid=8, seq=0)
        put(kit, (b"z", b"1"))
        clean(kit)
        batches = kit.batches()
        assert [(info.producer_id, info.count) for info in batches] == [(7, 0), (8, 1), (-1, 1)]
        kit.load()
        assert kit.log.producers.get(7).last_sequence == 0

    def test_an_expired_producers_batch_goes(self, kit):
        put(kit, (b"a", b"1"), pid=7, seq=0)
        put(kit, (b"a", b"2"))
        put(kit, (b"z", b"1"))
        kit.log.remove_expired_producers(NOW + DAY)
        clean(kit)
        assert [info.producer_id for info in kit.batches()] == [-1, -1]

    def test_the_last_batch_of_the_round_stays_even_if_empty(self, kit):
        put(kit, (b"a", b"1"))
        put(kit, (None, b"gone"))
        clean(kit)
        assert [(info.base_offset, info.count) for info in kit.batches()] == [(0, 1), (1, 0)]


class TestTransactions:
    def test_aborted_data_goes_and_its_marker_follows_after_the_horizon(self, kit):
        put(kit, (b"a", b"aborted"), (b"b", b"aborted"), pid=7, seq=0, txn=True)  # 0 1
        kit.end_txn(7, commit=False)  # 2
        put(kit, (b"a", b"1"))  # 3
        kit.log.producers.clear()
        clean(kit, NOW)
        assert values(kit)[-1] == (3, b"a", b"1")
        assert [info.base_offset for info in kit.batches()] == [2, 3]  # data was there: no horizon yet
        assert not kit.batches()[0].has_delete_horizon
        put(kit, (b"x", b"1"))
        clean(kit, NOW)
        marker = kit.batches()[0]
        assert (marker.base_offset, marker.base_timestamp) == (2, NOW + DAY)
        put(kit, (b"y", b"1"))
        clean(kit, NOW + DAY)
        assert kit.batches()[0].base_offset == 3

    def test_the_index_lists_an_aborted_transaction_until_its_data_is_gone(self, kit):
        put(kit, (b"a", b"aborted"), pid=7, seq=0, txn=True)
        kit.end_txn(7, commit=False)
        put(kit, (b"z", b"1"))
        kit.log.producers.clear()  # else its last batch would stay, emptied, and count as data
        clean(kit)
        assert len(kit.log.aborted_transactions(0, 9)) == 1
        put(kit, (b"y", b"1"))
        clean(kit)
        assert kit.log.aborted_transactions(0, 9) == []

    def test_a_committed_marker_stays_while_its_data_does(self, kit):
        put(kit, (b"a", b"1"), pid=7, seq=0, txn=True)  # 0
        kit.end_txn(7, commit=True)  # 1
        put(kit, (b"z", b"1"))  # 2
        kit.log.producers.clear()
        for _ in range(2):
            clean(kit, NOW)
        assert [info.base_offset for info in kit.batches()] == [0, 1, 2]
        assert not kit.batches()[1].has_delete_horizon
        put(kit, (b"a", b"2"))  # 3
        clean(kit, NOW)
        put(kit, (b"y", b"1"))
        clean(kit, NOW)
        assert [info.base_offset for info in kit.batches()][:2] == [1, 2]
        assert kit.batches()[0].has_delete_horizon
        put(kit, (b"w", b"1"))
        clean(kit, NOW + DAY)
        assert kit.batches()[0].base_offset == 2

    def test_markers_never_enter_the_key_map(self, kit):
        control_key = b"\0\0\0\1"
        put(kit, (control_key, b"data with a marker's key"))  # 0
        put(kit, (b"a", b"1"), pid=7, seq=0, txn=True)  # 1
        kit.end_txn(7, commit=True)  # 2, its key is the same
        put(kit, (b"z", b"1"))
        clean(kit)
        assert values(kit)[0] == (0, control_key, b"data with a marker's key")

    def test_nothing_after_an_open_transaction_is_touched(self, kit):
        put(kit, (b"a", b"1"))
        kit.log.roll(NOW)
        put(kit, (b"a", b"2"), pid=7, seq=0, txn=True)
        put(kit, (b"a", b"3"))
        clean(kit)
        assert [offset for offset, _, _ in values(kit)] == [0, 1, 2]
        cleanable = assess(kit.log, None, kit.log.log_end_offset, NOW)
        assert cleanable.first_uncleanable_offset == 1

    def test_the_same_producer_may_commit_after_it_aborted(self, kit):
        put(kit, (b"a", b"aborted"), pid=7, seq=0, txn=True)
        kit.end_txn(7, commit=False)
        put(kit, (b"a", b"committed"), pid=7, seq=1, txn=True)
        kit.end_txn(7, commit=True)
        put(kit, (b"z", b"1"))
        clean(kit)
        assert (2, b"a", b"committed") in values(kit)
        put(kit, (b"y", b"1"))
        clean(kit, dirty=4)
        assert (2, b"a", b"committed") in values(kit)


class TestBounds:
    def test_a_small_map_cleans_in_several_rounds(self, kit):
        for number in range(40):
            put(kit, (b"%d" % (number % 20), b"%d" % number))
            if number % 5 == 4:
                kit.log.roll(NOW)
        dirty, rounds = None, 0
        while dirty != 40:
            dirty = clean(kit, dirty=dirty, buffer=24 * 8, roll=False)
            rounds += 1
            assert rounds < 20
        assert rounds > 2
        assert sorted(key for _, key, _ in values(kit)) == sorted(b"%d" % n for n in range(20))

    def test_small_segments_are_merged_up_to_the_segment_size(self, kit):
        size = len(kit.batch())
        kit.log.config = kit.config = __import__("dataclasses").replace(kit.config, segment_bytes=size * 4)
        for number in range(8):
            put(kit, (b"%d" % number, b"v"))
            kit.log.roll(NOW)
        clean(kit)
        assert kit.bases() == [0, 4, 8]

    def test_segments_too_far_apart_are_not_merged(self, kit):
        kit.follow(kit.batch(base_offset=0, epoch=0, key=b"a"))
        kit.log.roll(NOW)
        kit.follow(kit.batch(base_offset=2**31 - 2, epoch=0, key=b"b"))
        kit.log.roll(NOW)
        kit.follow(kit.batch(base_offset=2**31 + 5, epoch=0, key=b"c"))
        clean(kit)
        assert kit.bases() == [0, 2**31 - 1, 2**31 + 6]
        assert kit.offsets() == [0, 2**31 - 2, 2**31 + 5]

    def test_an_unsound_segment_is_not_compacted(self, kit):
        put(kit, (b"a", b"1"))
        kit.log.roll(NOW)
        path = Path(kit.log.segments[0].file.path)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(KafkaStorageError, match="CRC"):
            clean(kit)

    def test_the_new_segments_keep_the_age_of_the_old(self, kit):
        put(kit, (b"a", b"1"))
        kit.log.roll(NOW)
        kit.disk.set_modified_ms(kit.log.segments[0].file.path, 5000)
        clean(kit)
        assert kit.disk.modified_ms(kit.log.segments[0].file.path) == 5000

    def test_a_reader_of_the_old_segment_is_not_disturbed(self, kit):
        put(kit, (b"a", b"1"))
        put(kit, (b"a", b"2"))
        piece = kit.log.read(0, 1 << 20, 2)
        piece.file.pin()
        clean(kit)
        kit.log.purge(NOW + DAY)
        data = piece.file.read_at(piece.position, piece.length)
        assert [record.value for info in scan(data) for record in records(data, info)] == [b"1", b"2"]
        piece.file.unpin()
