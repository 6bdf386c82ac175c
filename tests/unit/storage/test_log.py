from __future__ import annotations

import pytest

from kavka.kernels.batches import scan
from kavka.model.errors import (
    InconsistentTopicId,
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from kavka.model.types import Uuid
from kavka.records.builder import restamped
from kavka.storage.log import UnexpectedOffset
from kavka.storage.txn_index import AbortedTransaction

NOW = 1_700_000_000_000


def test_a_new_log_has_kafkas_files_and_is_empty(kit):
    log = kit.create()
    stem = "0" * 20
    assert kit.names() == {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex", "partition.metadata"}
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point, log.size_bytes) == (0, 0, 0, 0)
    assert log.read(0, 100, 0) is None


def test_batches_get_the_next_offsets_and_the_leaders_epoch(kit):
    kit.create()
    first = kit.append(count=3, epoch=5)
    second = kit.append(count=2, epoch=6, timestamp=NOW + 50)
    assert (first.first_offset, first.last_offset, first.log_append_time, first.duplicate) == (0, 2, -1, False)
    assert (second.first_offset, second.last_offset, second.max_timestamp) == (3, 4, NOW + 51)
    assert [(info.base_offset, info.leader_epoch) for info in kit.batches()] == [(0, 5), (3, 6)]
    assert kit.log.epochs.entries == ((5, 0), (6, 3))
    assert kit.offsets() == [0, 1, 2, 3, 4]


def test_a_batch_in_the_middle_of_a_buffer_is_written_alone(kit):
    kit.create()
    wanted = kit.batch(count=2, value=b"wanted")
    data = b"x" * 100 + wanted + b"y" * 100
    kit.log.append_as_leader(data, scan(data, 100, 100 + len(wanted)), 0, NOW)
    assert [record.value for record in kit.records()] == [b"wanted", b"wanted"]


def test_several_batches_of_one_append_are_numbered_on(kit):
    kit.create()
    kit.append(count=2)
    info = kit.append(kit.batch(count=2) + kit.batch(count=3))
    assert (info.first_offset, info.last_offset) == (2, 6)
    assert [batch.base_offset for batch in kit.batches()] == [0, 2, 4]


def test_an_append_of_nothing_changes_nothing(kit):
    kit.create()
    info = kit.log.append_as_leader(b"", [], 0, NOW)
    assert (info.first_offset, info.last_offset) == (0, -1)
    assert kit.log.log_end_offset == 0


def test_log_append_time_is_answered(kit):
    from kavka.kernels.batches import set_log_append_time

    kit.create()
    data = bytearray(kit.batch())
    set_log_append_time(data, 0, 12345)
    assert kit.append(bytes(data)).log_append_time == 12345


class TestIdempotence:
    def test_a_repeated_batch_answers_the_original_offset_and_time(self, kit):
        kit.create()
        kit.append(count=3)
        for sequence in range(5):
            kit.append(pid=9, seq=sequence, timestamp=NOW + sequence)
        end = kit.log.log_end_offset
        again = kit.append(pid=9, seq=1, timestamp=NOW + 77)
        assert (again.duplicate, again.first_offset, again.last_offset, again.log_append_time) == (True, 4, 4, NOW + 1)
        assert kit.log.log_end_offset == end

    def test_a_batch_older_than_the_last_five_is_out_of_order(self, kit):
        kit.create()
        for sequence in range(6):
            kit.append(pid=9, seq=sequence)
        with pytest.raises(OutOfOrderSequenceNumber):
            kit.append(pid=9, seq=0)

    def test_gaps_and_old_epochs_are_refused_and_write_nothing(self, kit):
        kit.create()
        kit.append(pid=9, pepoch=2, seq=0)
        size = kit.log.size_bytes
        with pytest.raises(OutOfOrderSequenceNumber):
            kit.append(pid=9, pepoch=2, seq=2)
        with pytest.raises(InvalidProducerEpoch):
            kit.append(pid=9, pepoch=1, seq=1)
        assert kit.log.size_bytes == size

    def test_silent_producers_expire(self, kit):
        kit.create(producer_id_expiration_ms=1000)
        kit.append(pid=9, timestamp=NOW)
        assert kit.log.remove_expired_producers(NOW + 999) == 0
        assert kit.log.remove_expired_producers(NOW + 1000) == 1
        kit.append(pid=9, seq=500)


class TestRolling:
    def test_by_size(self, kit):
        size = len(kit.batch())
        kit.create(segment_bytes=size * 2)
        for _ in range(5):
            kit.append()
        assert kit.bases() == [0, 2, 4]
        assert kit.offsets() == [0, 1, 2, 3, 4]

    def test_a_batch_larger_than_a_segment_is_refused(self, kit):
        kit.create(segment_bytes=200)
        with pytest.raises(RecordListTooLarge) as raised:
            kit.append(value=b"v" * 300)
        assert raised.value.code == 18
        assert kit.log.log_end_offset == 0

    def test_by_the_time_between_the_first_batch_and_the_new_one(self, kit):
        kit.create(segment_ms=1000)
        kit.append(timestamp=NOW)
        kit.append(timestamp=NOW + 1000)
        assert kit.bases() == [0]
        kit.append(timestamp=NOW + 1001)
        assert kit.bases() == [0, 2]

    def test_by_the_clock_if_records_have_no_time(self, kit):
        kit.create(segment_ms=1000)
        kit.append(timestamp=-1)
        kit.now += 1001
        kit.append(timestamp=-1)
        assert kit.bases() == [0, 1]

    def test_by_time_also_after_a_restart(self, kit):
        kit.create(segment_ms=1000)
        kit.append(timestamp=NOW)
        kit.log.close()
        kit.load(clean=True)
        kit.append(timestamp=NOW + 1001)
        assert kit.bases() == [0, 1]

    def test_an_old_but_empty_segment_is_not_rolled(self, kit):
        kit.create(segment_ms=1000)
        kit.now += 5000
        kit.append(timestamp=kit.now)
        assert kit.bases() == [0]

    def test_jitter_makes_segments_roll_earlier_but_the_same_at_every_start(self, kit):
        log = kit.create(segment_ms=1000, segment_jitter_ms=900)
        jitter = log.segments[0].jitter_ms
        assert 0 < jitter < 900
        kit.append(timestamp=NOW)
        kit.append(timestamp=NOW + 1000 - jitter)
        assert kit.bases() == [0]
        log.close()
        kit.load(clean=True)
        assert kit.log.segments[0].jitter_ms == jitter

    def test_by_a_full_index(self, kit):
        kit.create(index_interval_bytes=1, index_size_max_bytes=36)
        for _ in range(10):
            kit.append(timestamp=NOW)
        assert len(kit.bases()) > 1
        assert kit.offsets() == list(range(10))
        for segment in kit.log.segments:
            assert len(segment.offset_index) <= 4

    def test_an_index_too_small_for_an_entry_still_takes_writes(self, kit):
        kit.create(index_interval_bytes=1, index_size_max_bytes=4)
        for _ in range(3):
            kit.append()
        assert kit.offsets() == [0, 1, 2]

    def test_by_an_offset_too_far_from_the_segments_start(self, kit):
        kit.create()
        kit.follow(kit.batch(base_offset=0, epoch=0))
        kit.follow(kit.batch(base_offset=2**31 - 1, epoch=0))
        assert kit.bases() == [0]
        kit.follow(kit.batch(base_offset=2**31, epoch=0))
        assert kit.bases() == [0, 2**31]

    def test_a_compacted_log_rolls_within_its_maximum_lag(self, kit):
        kit.create(segment_ms=10_000, compact=True, max_compaction_lag_ms=100)
        kit.append(timestamp=NOW)
        kit.append(timestamp=NOW + 101)
        assert kit.bases() == [0, 1]

    def test_leaves_a_snapshot_of_the_producers_at_the_new_segments_start(self, kit):
        kit.create()
        kit.append(pid=1, count=3)
        kit.log.roll(NOW)
        assert f"{3:020d}.snapshot" in kit.names()
        assert kit.log.producers.snapshots == [3]

    def test_rolling_an_empty_segment_does_nothing(self, kit):
        kit.create()
        active = kit.log.segments[-1]
        assert kit.log.roll(NOW) is active

    def test_preallocated_segments_are_cut_to_what_was_written(self, kit):
        size = len(kit.batch())
        kit.create(segment_bytes=10 * size, preallocate=True)
        kit.append()
        active = kit.log.segments[-1]
        assert active.file.size() == 10 * size
        kit.log.roll(NOW)
        assert active.file.size() == size
        kit.append()
        kit.log.close()
        assert kit.log.segments[-1].file.size() == size


class TestReading:
    def test_starts_at_the_batch_that_has_the_offset(self, kit):
        kit.create()
        kit.append(count=10)
        kit.append(count=10)
        piece = kit.log.read(15, 1 << 20, 20)
        data = piece.file.read_at(piece.position, piece.length)
        assert [info.base_offset for info in scan(data)] == [10]

    @pytest.mark.parametrize("offset", [-1, 4, 21, 100])
    def test_outside_the_log_is_out_of_range(self, kit, offset):
        kit.create()
        kit.append(count=20)
        kit.log.advance_log_start_offset(5, 20)
        with pytest.raises(OffsetOutOfRange) as raised:
            kit.log.read(offset, 100, 20)
        assert raised.value.code == 1

    def test_the_end_has_nothing_yet(self, kit):
        kit.create()
        kit.append(count=3)
        assert kit.log.read(3, 100, 3) is None

    def test_stops_before_the_limit(self, kit):
        kit.create()
        sizes = [len(kit.batch(count=n)) for n in (1, 2, 3)]
        for count in (1, 2, 3):
            kit.append(count=count)
        assert kit.log.read(0, 1 << 20, 3).length == sum(sizes[:2])
        assert kit.log.read(0, 1 << 20, 1).length == sizes[0]
        assert kit.log.read(3, 1 << 20, 3) is None
        assert kit.log.read(0, 1 << 20, 6).length == sum(sizes)

    def test_a_limit_inside_a_batch_leaves_the_batch_out(self, kit):
        kit.create()
        kit.append(count=1)
        kit.append(count=5)
        assert kit.log.read(0, 1 << 20, 3).length == len(kit.batch())
        assert kit.log.read(1, 1 << 20, 3) is None

    def test_cuts_anywhere_but_in_the_first_batch(self, kit):
        kit.create()
        size = len(kit.batch())
        for _ in range(3):
            kit.append()
        assert kit.log.read(0, size + 10, 3).length == size + 10
        assert kit.log.read(0, 10, 3).length == size
        assert kit.log.read(0, size + 10, 3, min_one=False).length == size + 10
        assert kit.log.read(0, size, 3, min_one=False).length == size

    def test_without_the_promise_of_one_batch_a_cut_one_is_nothing(self, kit):
        kit.create()
        size = len(kit.batch())
        for _ in range(3):
            kit.append()
        assert kit.log.read(0, size - 1, 3, min_one=False) is None
        assert kit.log.read(0, 0, 3, min_one=False) is None
        assert kit.log.read(0, 1 << 20, 2).length == 2 * size
        assert kit.log.read(2, size - 1, 3, min_one=False) is None  # where the last read ended, too
        assert kit.log.read(2, size - 1, 3).length == size

    def test_a_tail_reader_goes_on_where_it_stopped(self, kit):
        size = len(kit.batch())
        kit.create(segment_bytes=3 * size)
        offset = 0
        for expected in range(10):
            kit.append()
            piece = kit.log.read(offset, 1 << 20, kit.log.log_end_offset)
            (info,) = scan(piece.file.read_at(piece.position, piece.length))
            assert info.base_offset == expected
            offset = info.last_offset + 1

    def test_a_tail_reader_with_little_room_still_gets_a_whole_batch(self, kit):
        kit.create()
        kit.append()
        kit.log.read(0, 1 << 20, 1)
        kit.append()
        kit.append()
        assert kit.log.read(1, 10, 3).length == len(kit.batch())

    def test_a_follower_gap_is_read_over(self, kit):
        kit.create()
        kit.follow(kit.batch(base_offset=0, epoch=0))
        kit.follow(kit.batch(base_offset=50, epoch=0))
        piece = kit.log.read(20, 1 << 20, 51)
        assert scan(piece.file.read_at(piece.position, piece.length))[0].base_offset == 50

    def test_large_segments_are_found_through_the_index(self, kit):
        kit.create(index_interval_bytes=200, segment_bytes=1 << 30)
        for _ in range(2000):
            kit.append()
        assert len(kit.log.segments[0].offset_index) > 500
        for offset in (0, 1, 777, 1999):
            piece = kit.log.read(offset, 1, 2000)
            assert scan(piece.file.read_at(piece.position, piece.length))[0].base_offset == offset


class TestFollowing:
    def test_offsets_and_epochs_stay_as_the_leader_gave_them(self, kit):
        kit.create()
        info = kit.follow(kit.batch(base_offset=4, epoch=1, count=2), kit.batch(base_offset=6, epoch=3))
        assert (info.first_offset, info.last_offset) == (4, 6)
        assert kit.log.epochs.entries == ((1, 4), (3, 6))
        assert kit.log.log_end_offset == 7

    def test_batches_of_a_later_epoch_than_the_leaders_are_left(self, kit):
        kit.create()
        info = kit.follow(kit.batch(epoch=2), kit.batch(base_offset=1, epoch=3), leader_epoch=2)
        assert info.last_offset == 0
        assert kit.follow(kit.batch(base_offset=1, epoch=3), leader_epoch=2) is None

    def test_what_does_not_continue_the_log_is_refused(self, kit):
        kit.create()
        kit.follow(kit.batch(base_offset=5, epoch=0))
        with pytest.raises(UnexpectedOffset):
            kit.follow(kit.batch(base_offset=5, epoch=0))
        with pytest.raises(UnexpectedOffset):
            kit.follow(kit.batch(base_offset=9, epoch=0), kit.batch(base_offset=7, epoch=0))
        assert kit.log.log_end_offset == 6

    def test_more_than_a_segment_at_once_is_spread(self, kit):
        batches = [kit.batch(base_offset=n, epoch=0) for n in range(6)]
        kit.create(segment_bytes=len(batches[0]) * 2)
        kit.follow(*batches)
        assert kit.bases() == [0, 2, 4]

    def test_producer_state_follows(self, kit):
        kit.create()
        kit.follow(kit.batch(epoch=0, pid=5, seq=3), kit.batch(base_offset=1, epoch=0, pid=5, seq=4))
        assert kit.log.producers.get(5).last_sequence == 4


class TestTransactions:
    def test_the_last_stable_offset_waits_for_the_marker_and_its_replication(self, kit):
        kit.create()
        log = kit.log
        kit.append(count=2)
        kit.append(pid=1, txn=True)
        kit.append()
        assert log.last_stable_offset(4) == 2
        assert log.last_stable_offset(1) == 1
        kit.end_txn(1, commit=True)
        assert log.last_stable_offset(4) == 2  # the marker is at 4
        assert log.last_stable_offset(5) == 5

    def test_aborted_transactions_are_listed_by_the_data_they_overlap(self, kit):
        kit.create()
        kit.append(pid=1, txn=True)  # 0
        kit.append(pid=2, txn=True)  # 1
        kit.end_txn(1, commit=False)  # 2
        kit.append()  # 3
        kit.end_txn(2, commit=False)  # 4
        first, second = AbortedTransaction(1, 0, 2, 1), AbortedTransaction(2, 1, 4, 5)
        assert kit.log.aborted_transactions(0, 5) == [first, second]
        assert kit.log.aborted_transactions(0, 1) == [first]
        assert kit.log.aborted_transactions(3, 5) == [second]
        assert kit.log.aborted_transactions(5, 9) == []

    def test_aborted_transactions_are_found_in_later_segments(self, kit):
        kit.create()
        kit.append(pid=1, txn=True)
        kit.log.roll(NOW)
        kit.end_txn(1, commit=False)
        assert [txn.producer_id for txn in kit.log.aborted_transactions(0, 1)] == [1]

    def test_committed_transactions_are_not_in_the_index(self, kit):
        kit.create()
        kit.append(pid=1, txn=True)
        kit.end_txn(1, commit=True)
        assert kit.log.aborted_transactions(0, 2) == []
        assert not any(name.endswith(".txnindex") for name in kit.names())

    def test_a_slice_has_an_offset_it_does_not_reach(self, kit):
        kit.create(index_interval_bytes=1)
        for _ in range(5):
            kit.append()
        size = len(kit.batch())
        piece = kit.log.read(1, 2 * size, 5)
        assert kit.log.upper_bound_offset(piece) in (3, 4)
        assert kit.log.upper_bound_offset(kit.log.read(4, size, 5)) == 5
        kit.log.roll(NOW)
        kit.append()
        assert kit.log.upper_bound_offset(kit.log.read(4, size, 6)) == 5


class TestTime:
    def test_the_first_record_at_or_after_a_time_is_found(self, kit):
        kit.create(segment_bytes=300)
        for start in (100, 200, 300, 400):
            kit.append(count=3, timestamp=start, epoch=start // 100)
        find = kit.first_at
        assert find(0) == (100, 0, 1)
        assert find(101) == (101, 1, 1)
        assert find(103) == (200, 3, 2)
        assert find(302) == (302, 8, 3)
        assert find(402) == (402, 11, 4)
        assert find(403) is None or find(403).timestamp >= 403

    def test_records_before_the_log_start_are_not_found(self, kit):
        kit.create()
        kit.append(count=5, timestamp=100)
        kit.log.advance_log_start_offset(3, 5)
        assert kit.first_at(100) == (103, 3, 0)

    def test_compressed_batches_are_searched_too(self, kit):
        kit.create()
        for codec in range(5):
            kit.append(count=3, timestamp=100 * codec, codec=codec)
        assert kit.first_at(301).offset == 10

    def test_a_header_that_promises_a_time_that_no_record_has_is_passed_over(self, kit):
        kit.create(segment_bytes=400)
        for codec in range(5):
            sent = kit.batch(count=3, timestamp=100, codec=codec)
            kit.append(restamped(sent, scan(sent)[0], 1000))
        kit.append(count=1, timestamp=500)
        assert len(kit.log.segments) > 1
        assert kit.first_at(400) == (500, 15, 0)

    def test_a_batch_that_cannot_be_read_is_passed_over(self, kit):
        kit.create()
        for codec in range(5):
            sent = bytearray(kit.batch(count=3, timestamp=100, codec=codec))
            sent[-5:] = b"bad!!"
            kit.append(restamped(sent, scan(sent, check_crc=False)[0], 1000))
        kit.append(count=1, timestamp=100)
        assert kit.first_at(103) is None
        assert kit.first_at(100) is not None

    def test_a_search_is_done_in_steps(self, kit):
        kit.create()
        sent = kit.batch(value=bytes(1 << 20), timestamp=100, codec=4)
        kit.append(restamped(sent, scan(sent)[0], 1000))
        steps = sum(1 for _ in kit.log.search_timestamp(500))
        assert steps > 1 << 3  # each decompresses 128 KiB

    def test_the_record_with_the_largest_time_may_be_anywhere(self, kit):
        kit.create(segment_bytes=300)
        for start in (100, 900, 300, 400):
            kit.append(count=3, timestamp=start)
        assert kit.newest() == (902, 5, 0)

    def test_without_timestamps_there_is_no_largest(self, kit):
        kit.create()
        assert kit.newest() is None


class TestTruncating:
    def test_inside_a_segment_cuts_at_the_batch_that_has_the_offset(self, kit):
        kit.create()
        for _ in range(4):
            kit.append(count=5)
        assert kit.log.truncate_to(12)
        assert kit.offsets() == list(range(10))
        assert kit.log.log_end_offset == 10  # Kafka would go on at 12, and its next fetch of that batch would fail
        assert kit.append().first_offset == 10

    def test_removes_whole_segments_and_their_snapshots(self, kit):
        size = len(kit.batch())
        kit.create(segment_bytes=size * 2)
        for sequence in range(7):
            kit.append(pid=1, seq=sequence)
        assert kit.bases() == [0, 2, 4, 6]
        kit.log.truncate_to(3)
        assert kit.bases() == [0, 2]
        assert kit.offsets() == [0, 1, 2]
        assert kit.log.producers.snapshots == [2]
        assert f"{4:020d}.snapshot" not in kit.names()

    def test_takes_producer_state_back(self, kit):
        kit.create()
        for sequence in range(5):
            kit.append(pid=1, seq=sequence)
        kit.append(pid=2)
        kit.log.truncate_to(3)
        assert kit.log.producers.get(1).last_sequence == 2
        assert kit.log.producers.get(2) is None
        info = kit.append(pid=1, seq=3)
        assert (info.duplicate, info.first_offset) == (False, 3)

    def test_takes_transactions_back(self, kit):
        kit.create()
        kit.append(pid=1, txn=True)
        kit.end_txn(1, commit=False)
        kit.log.truncate_to(1)
        assert kit.log.aborted_transactions(0, 9) == []
        assert kit.log.last_stable_offset(1) == 0

    def test_takes_epochs_back_even_if_no_data_goes(self, kit):
        kit.create()
        kit.append(epoch=1)
        kit.log.epochs.assign(2, 1)
        assert not kit.log.truncate_to(5)
        assert kit.log.epochs.entries == ((1, 0),)

    def test_takes_the_index_and_the_largest_time_back(self, kit):
        kit.create(index_interval_bytes=1)
        for number in range(20):
            kit.append(timestamp=NOW + number)
        kit.log.truncate_to(10)
        segment = kit.log.segments[0]
        assert segment.offset_index.last()[0] < 10
        assert segment.max_timestamp == NOW + 9
        kit.append(timestamp=NOW + 3)
        assert kit.newest().offset == 9

    def test_below_the_first_segment_starts_anew(self, kit):
        kit.create()
        kit.log.truncate_fully_and_start_at(100)
        kit.append()
        kit.log.truncate_to(50)
        assert (kit.log.log_start_offset, kit.log.log_end_offset) == (50, 50)
        assert kit.bases() == [50]

    def test_fully_leaves_an_empty_log_at_the_offset(self, kit):
        kit.create()
        kit.append(pid=1, count=5)
        kit.log.sync()
        kit.log.truncate_fully_and_start_at(1000)
        log = kit.log
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (1000, 1000, 5)
        assert len(log.producers) == 0
        assert log.epochs.entries == ()
        assert kit.append().first_offset == 1000

    def test_fully_to_where_it_starts_replaces_the_segment(self, kit):
        kit.create()
        kit.append(count=5)
        kit.log.truncate_fully_and_start_at(0)
        assert kit.offsets() == []
        kit.append()
        assert kit.offsets() == [0]

    def test_to_a_negative_offset_is_a_mistake(self, kit):
        kit.create()
        with pytest.raises(ValueError, match="cannot truncate"):
            kit.log.truncate_to(-1)


class TestLogStart:
    def test_moves_up_to_the_high_watermark(self, kit):
        kit.create()
        kit.append(count=10, epoch=1)
        assert kit.log.advance_log_start_offset(4, 10)
        assert not kit.log.advance_log_start_offset(3, 10)
        assert kit.log.log_start_offset == 4
        assert kit.log.epochs.entries == ((1, 4),)
        with pytest.raises(OffsetOutOfRange):
            kit.log.advance_log_start_offset(11, 10)

    def test_producer_state_survives(self, kit):
        kit.create()
        kit.append(pid=1, count=3)
        kit.log.advance_log_start_offset(3, 3)
        assert kit.append(pid=1, seq=0, count=3).duplicate


class TestIdentity:
    def test_a_log_belongs_to_one_topic_id(self, kit):
        log = kit.create()
        log.assign_topic_id(log.topic_id)
        with pytest.raises(InconsistentTopicId) as raised:
            log.assign_topic_id(Uuid(b"x" * 16))
        assert raised.value.code == 103

    def test_a_deleted_log_gives_its_name_free_and_then_its_files(self, kit):
        kit.create()
        kit.append()
        piece = kit.log.read(0, 100, 1)
        piece.file.pin()
        path = kit.log.mark_deleted("0" * 32)
        assert path.endswith("orders-3." + "0" * 32 + "-delete")
        assert not kit.disk.exists(kit.path)
        kit.log.delete()
        assert not kit.disk.exists(path)
        assert len(piece.file.read_at(piece.position, piece.length)) == piece.length
        piece.file.unpin()
