"""One share partition: who gets which records, and what becomes of them."""

from __future__ import annotations

import pytest

from kavka.model.errors import InvalidRecordState, InvalidRequest, UnknownServerError
from kavka.model.share import ACKNOWLEDGED, ARCHIVED, AVAILABLE, StateBatch
from kavka.share.aborted import TransactionalBatch, aborted_ranges
from kavka.share.acquiring import RECORD_LIMIT, DeliveryLimits, LogBatch, Wanted
from kavka.share.partition import (
    ACCEPT,
    GAP,
    REJECT,
    REJECTED,
    RELEASE,
    RENEW,
    SPENT,
    Acknowledgement,
    Dead,
    SharePartition,
    persister_error,
)

LIMITS = DeliveryLimits()
TENS = [LogBatch(first, first + 9) for first in range(0, 100, 10)]


def fresh(start=0, states=()):
    return SharePartition.load(3, 7, start, states)


def fetch(partition, member="m", most=500, size=500, mode=0, limits=LIMITS, now=0, log=TENS, aborted=()):
    offset = partition.next_fetch_offset()
    read = [each for each in log if each.last_offset >= offset]
    wanted = Wanted(member, most, size, mode)
    return [tuple(each) for each in partition.acquire(wanted, offset, read, limits, now, aborted)]


def say(partition, first, last, *types, member="m", limits=LIMITS, now=0):
    return partition.acknowledge(member, [Acknowledgement(first, last, types)], limits, now)


def tell(partition, first, last, *types, member="m", limits=LIMITS, now=0):
    write = say(partition, first, last, *types, member=member, limits=limits, now=now)
    assert write is not None
    partition.written(write)
    return write


def test_new_records_are_acquired_to_the_end_of_the_batch_that_reaches_the_limit():
    assert fetch(fresh(), most=15) == [(0, 19, 1)]


def test_what_is_acquired_is_divided_where_batches_begin():
    assert fetch(fresh(), most=50, size=15) == [(0, 19, 1), (20, 39, 1), (40, 49, 1)]


def test_a_strict_limit_is_kept_and_the_rest_of_the_batch_goes_to_the_next():
    partition = fresh()
    assert fetch(partition, most=4, mode=RECORD_LIMIT) == [(0, 3, 1)]
    assert fetch(partition, "n", most=4, mode=RECORD_LIMIT) == [(4, 7, 1)]


def test_accepted_records_move_the_start_and_are_forgotten():
    partition = fresh()
    fetch(partition, most=20)
    write = tell(partition, 0, 19, ACCEPT)
    assert write.batches == (StateBatch(0, 19, ACKNOWLEDGED, 1),)
    assert (write.state_epoch, write.leader_epoch, write.start_offset, write.delivery_complete_count) == (7, 3, 0, 20)
    assert partition.window.start_offset == 20
    assert not partition.window.batches


def test_nothing_moves_before_the_write_is_done():
    partition = fresh()
    fetch(partition, most=10)
    write = say(partition, 0, 9, ACCEPT)
    assert partition.window.start_offset == 0
    assert partition.written(write)
    assert partition.window.start_offset == 10


def test_a_failed_write_gives_the_records_back_to_their_member():
    partition = fresh()
    fetch(partition, most=10)
    write = say(partition, 0, 9, ACCEPT)
    with pytest.raises(InvalidRecordState):
        say(partition, 0, 9, ACCEPT)  # while it is being written
    partition.unwritten(write, 5)
    assert partition.window.complete_count == 0
    tell(partition, 0, 9, ACCEPT)


def test_a_failed_write_does_not_bring_back_a_lock_that_has_ended():
    partition = fresh()
    fetch(partition, most=10)
    write = say(partition, 0, 9, ACCEPT)
    assert partition.expire(LIMITS, 30_000) is None
    assert partition.unwritten(write, 30_000)
    assert fetch(partition, "n", most=10, now=30_000) == [(0, 9, 2)]


def test_one_refused_acknowledgement_refuses_all_of_the_partition():
    partition = fresh()
    fetch(partition, "m", most=10)
    fetch(partition, "n", most=10)
    with pytest.raises(InvalidRecordState):
        partition.acknowledge("m", [Acknowledgement(0, 9, [ACCEPT]), Acknowledgement(10, 19, [ACCEPT])], LIMITS, 0)
    tell(partition, 0, 9, ACCEPT)


def test_offsets_beyond_what_was_acquired_are_a_bad_request():
    partition = fresh()
    fetch(partition, most=10)
    for first, last in [(5, 10), (10, 12)]:
        with pytest.raises(InvalidRequest):
            say(partition, first, last, ACCEPT)


def test_what_is_before_the_start_is_acknowledged_again_without_a_word():
    partition = fresh()
    fetch(partition, most=10)
    tell(partition, 0, 9, ACCEPT)
    assert say(partition, 0, 9, ACCEPT) is None


def test_each_record_may_have_its_own_type():
    partition = fresh()
    fetch(partition, most=4, mode=RECORD_LIMIT)
    write = tell(partition, 0, 3, ACCEPT, GAP, RELEASE, REJECT)
    assert write.batches == (
        StateBatch(0, 0, ACKNOWLEDGED, 1),
        StateBatch(1, 1, ARCHIVED, 1),
        StateBatch(2, 2, AVAILABLE, 1),
        StateBatch(3, 3, ARCHIVED, 1),
    )
    assert partition.next_fetch_offset() == 2
    assert partition.window.start_offset == 2


def test_released_records_come_again_with_a_higher_count_and_are_archived_at_the_limit():
    partition = fresh()
    limits = DeliveryLimits(delivery_count=2)
    assert fetch(partition, most=10, limits=limits) == [(0, 9, 1)]
    tell(partition, 0, 9, RELEASE, limits=limits)
    assert fetch(partition, most=10, limits=limits) == [(0, 9, 2)]
    write = tell(partition, 0, 9, RELEASE, limits=limits)
    assert write.batches == (StateBatch(0, 9, ARCHIVED, 2),)
    assert partition.next_fetch_offset() == 10


def test_a_bad_record_is_narrowed_down_to_before_its_batch_is_lost():
    partition, counts = fresh(), []
    log = [LogBatch(0, 7)]
    for _ in range(4):
        got = fetch(partition, most=100, log=log)
        counts.append(got)
        write = partition.release("m", LIMITS)
        partition.written(write)
    assert counts == [[(0, 7, 1)], [(0, 7, 2)], [(0, 7, 3)], [(0, 3, 4)]]
    assert fetch(partition, most=100, log=log) == [(0, 0, 5)]  # the last time, alone


def test_an_ended_lock_is_taken_back_at_once_and_then_written():
    partition = fresh()
    fetch(partition, most=10, now=1000)
    assert partition.deadline_ms == 31_000
    assert partition.expire(LIMITS, 30_999) is None
    write = partition.expire(LIMITS, 31_000)
    assert write.batches == (StateBatch(0, 9, AVAILABLE, 1),)
    assert partition.deadline_ms == -1
    assert fetch(partition, "n", most=10) == [(0, 9, 2)]
    partition.unwritten(write, 31_000)
    with pytest.raises(InvalidRecordState):
        say(partition, 0, 9, ACCEPT)


def test_a_renewed_lock_lasts_longer_and_is_not_written():
    partition = fresh()
    fetch(partition, most=10)
    assert say(partition, 0, 9, RENEW, now=20_000) is None
    assert partition.expire(LIMITS, 30_000) is None
    assert partition.deadline_ms == 50_000
    with pytest.raises(InvalidRecordState):
        say(partition, 0, 9, RENEW, limits=DeliveryLimits(renew=False))


def test_no_more_is_in_flight_than_may_be():
    partition = fresh()
    limits = DeliveryLimits(max_record_locks=20)
    assert fetch(partition, limits=limits) == [(0, 19, 1)]
    assert not partition.can_acquire(limits)
    tell(partition, 5, 5, RELEASE)
    assert partition.can_acquire(limits)
    assert fetch(partition, "n", limits=limits) == [(5, 5, 2)]
    assert fetch(partition, "n", limits=limits) == []


def test_a_window_full_of_aborted_records_is_left_behind():
    partition = fresh()
    limits = DeliveryLimits(max_record_locks=20)
    assert fetch(partition, limits=limits, aborted=[(0, 9), (10, 19)]) == []
    assert fetch(partition, limits=limits) == [(20, 39, 1)]


def test_aborted_records_are_cut_out_of_what_is_acquired():
    batches = [
        TransactionalBatch(0, 9, 5),
        TransactionalBatch(10, 19, 6),
        TransactionalBatch(20, 29, 5),
        TransactionalBatch(30, 30, 5, aborts=True),
        TransactionalBatch(31, 39, 5),
    ]
    ranges = aborted_ranges(batches, [(5, 12)])
    assert ranges == [(20, 29)]
    assert fetch(fresh(), most=40, aborted=ranges) == [(0, 19, 1), (30, 39, 1)]


def test_what_compaction_took_is_archived():
    partition = fresh()
    fetch(partition, most=20, size=10)
    tell(partition, 0, 9, RELEASE)
    assert fetch(partition, "n", most=10, log=TENS[1:]) == [(20, 29, 1)]
    tell(partition, 10, 19, ACCEPT)
    assert partition.window.start_offset == 20


def test_what_is_gone_from_the_log_is_gone_here():
    partition = fresh()
    fetch(partition, most=30, size=10)
    tell(partition, 10, 19, RELEASE)
    partition.log_start_moved(25)
    assert partition.next_fetch_offset() == 30
    assert say(partition, 0, 9, ACCEPT) is None
    write = tell(partition, 20, 29, ACCEPT)
    assert write.batches == (StateBatch(25, 29, ACKNOWLEDGED, 1),)
    assert partition.window.complete_count == 5  # those before it are still someone's, until their lock ends
    partition.written(partition.expire(LIMITS, 30_000))
    assert partition.window.start_offset == 30


def test_gaps_that_were_persisted_are_read_again_before_the_start_passes_them():
    partition = fresh(5, [StateBatch(10, 19, ACKNOWLEDGED, 1), StateBatch(30, 39, AVAILABLE, 2)])
    assert partition.window.start_offset == 5
    assert fetch(partition, most=100, size=100, log=TENS[:4]) == [(5, 9, 1), (20, 29, 1), (30, 39, 3)]
    tell(partition, 5, 9, ACCEPT)
    assert partition.window.start_offset == 20


def test_no_lock_outlives_its_leader():
    partition = fresh(0, [StateBatch(0, 9, 1, 3)])
    assert partition.next_fetch_offset() == 0
    assert partition.deadline_ms == -1


@pytest.mark.parametrize(
    "states",
    [
        [StateBatch(3, 9, AVAILABLE, 1)],
        [StateBatch(9, 8, AVAILABLE, 1)],
        [StateBatch(9, 8, 7, 1)],
        [StateBatch(5, 9, AVAILABLE, 1), StateBatch(9, 12, AVAILABLE, 1)],
        [StateBatch(5, 9, 5, 1)],
    ],
)
def test_a_state_that_makes_no_sense_is_an_error_and_never_an_empty_window(states):
    with pytest.raises(UnknownServerError):
        fresh(5, states)


def test_a_fenced_share_partition_gives_nothing_more():
    partition = fresh()
    fetch(partition, most=10)
    partition.fence()
    assert fetch(partition) == []
    assert not partition.can_acquire(LIMITS)
    assert partition.deadline_ms == -1


def test_a_batch_size_of_nothing_is_no_reason_to_give_empty_ranges():
    assert fetch(fresh(), most=15, size=0) == [(0, 9, 1), (10, 19, 1)]


@pytest.mark.parametrize(
    ("code", "told"), [(14, 15), (15, 15), (16, 15), (69, 69), (3, 3), (74, 6), (124, 6), (58, -1), (42, -1)]
)
def test_what_a_client_hears_of_the_share_coordinator(code, told):
    assert persister_error(code, "").code == told


def test_the_start_does_not_pass_what_is_still_being_written():
    partition = fresh()
    fetch(partition, most=20, size=10)
    first, second = say(partition, 0, 9, ACCEPT), say(partition, 10, 19, ACCEPT)
    partition.written(second)
    assert partition.window.start_offset == 0
    partition.written(first)
    assert partition.window.start_offset == 20


def test_records_that_were_delivered_often_are_not_mixed_with_others():
    states = [StateBatch(0, 9, AVAILABLE, 1), StateBatch(10, 19, AVAILABLE, 3)]
    partition = fresh(0, states)
    assert fetch(partition, most=100) == [(0, 9, 2)]
    assert fetch(partition, most=100) == [(10, 14, 4)]


def test_what_is_given_up_is_told_with_its_cause_and_what_is_not_there_is_not():
    limits = DeliveryLimits(delivery_count=2)
    partition = fresh()
    fetch(partition, most=10, limits=limits)
    write = tell(partition, 0, 9, GAP, REJECT, ACCEPT, *[RELEASE] * 7, limits=limits)
    assert write.dead == (Dead(1, 1, 1, REJECTED),)
    fetch(partition, most=7, limits=limits, now=1)
    assert tell(partition, 3, 3, RELEASE, limits=limits).dead == (Dead(3, 3, 2, SPENT),)
    expired = partition.expire(limits, 40_000)
    assert expired is not None
    assert {one.cause for one in expired.dead} == {SPENT}
    assert sum(one.last_offset - one.first_offset + 1 for one in expired.dead) == len(
        [offset for one in expired.batches for offset in range(one.first_offset, one.last_offset + 1)]
    )


def test_what_was_released_waits_where_the_group_wants_it_so():
    limits = DeliveryLimits(max_record_locks=10, delay_ms=100, max_delay_ms=300)
    partition = fresh()
    fetch(partition, most=10, limits=limits)
    write = say(partition, 0, 9, RELEASE, limits=limits)
    assert not partition.written(write, limits, 1000)
    assert partition.deadline_ms == 1100
    assert partition.can_acquire(limits)  # those that wait are not in the way of others
    assert fetch(partition, limits=limits, now=1000, most=10) == [(10, 19, 1)]
    assert not partition.can_acquire(limits)
    with pytest.raises(InvalidRecordState):
        say(partition, 0, 9, ACCEPT, limits=limits)
    assert partition.expire(limits, 1100) is None  # nothing to write
    assert fetch(partition, "n", limits=limits, now=1100, most=10) == [(0, 9, 2)]


def test_who_releases_records_may_say_how_long_they_wait():
    limits = DeliveryLimits(max_record_locks=10, max_delay_ms=300)
    partition = fresh()
    fetch(partition, limits=limits, log=[LogBatch(0, 3)])
    said = [
        Acknowledgement(0, 0, [RELEASE], 200),
        Acknowledgement(1, 1, [RELEASE], 900),
        Acknowledgement(2, 2, [RELEASE]),
    ]
    write = partition.acknowledge("m", said, limits, 0)
    assert write is not None
    partition.written(write, limits, 0)
    free = {}
    for now in (0, 200, 300):
        partition.expire(limits, now)
        free[now] = [offset for batch in partition.window.batches for offset, _, held in batch.parts() if held.is_free]
    assert free == {0: [2], 200: [0, 2], 300: [0, 1, 2]}
    again = DeliveryLimits(max_record_locks=10)  # a group that allows no delay
    fetch(partition, limits=again, now=400, log=[LogBatch(0, 3)])
    write = partition.acknowledge("m", [Acknowledgement(0, 2, [RELEASE], 900)], again, 400)
    assert write is not None
    assert partition.written(write, again, 400)
    assert partition.next_fetch_offset() == 0


def test_where_it_stands_is_written_when_all_that_was_left_is_aborted():
    partition = SharePartition.load(0, 0, 0, [StateBatch(0, 0, ACKNOWLEDGED, 1), StateBatch(4, 6, ACKNOWLEDGED, 1)])
    assert partition.moved() is None  # what is between is still to be read
    log = [LogBatch(1, 3), LogBatch(4, 6)]
    assert partition.acquire(Wanted("m", 10, 10), 1, log, DeliveryLimits(), 0, [(1, 3)]) == []
    write = partition.moved()
    assert write is not None
    assert write.start_offset + write.delivery_complete_count == 7  # no lag
    assert partition.moved() is None


@pytest.mark.parametrize("refused", [False, True])
def test_a_delay_that_did_not_count_is_forgotten(refused):
    limits = DeliveryLimits(max_record_locks=10, max_delay_ms=300)
    partition = fresh()
    fetch(partition, limits=limits, log=[LogBatch(0, 3)])
    said = [Acknowledgement(0, 3, [RELEASE], 200), *[Acknowledgement(7, 7, [RELEASE])] * refused]
    if refused:
        with pytest.raises(InvalidRequest):
            partition.acknowledge("m", said, limits, 0)
    else:
        write = partition.acknowledge("m", said, limits, 0)
        assert write is not None
        partition.unwritten(write, 0)
    write = partition.release("m", limits)
    assert write is not None
    assert partition.written(write, limits, 0)
    assert partition.next_fetch_offset() == 0


def test_the_delay_doubles_up_to_its_limit():
    growing = DeliveryLimits(delay_ms=100, max_delay_ms=300)
    assert [growing.delay_of(count) for count in (1, 2, 3, 4, 99)] == [100, 200, 300, 300, 300]
    assert [DeliveryLimits(delay_ms=100).delay_of(count) for count in (1, 5)] == [100, 100]
    assert DeliveryLimits().delay_of(3) == 0
