"""What expires of the remote segments of a log, and what has to be cleaned up."""

from __future__ import annotations

from tests.unit.catalog.test_machine import DELETING, FINISHED, FOO, Node, id_of, segment

from kavka.catalog.expiry import (
    Copiers,
    Expiry,
    LogSpan,
    Retention,
    all_segments,
    expired,
    first_readable,
    leftovers,
    own_leftovers,
    to_remove,
)
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import RemoteSegment

DAY_MS = 86_400_000
LINE = ((0, 0),)


def held(*segments: RemoteSegment) -> PartitionSegments:
    node = Node()
    for one in segments:
        node.copy(one)
    return node.catalogue.partition(FOO.topic_id, 0)


def timed(number: int, start: int, end: int, at_ms: int, *epochs: tuple[int, int]) -> RemoteSegment:
    return segment(number, start, end, *epochs)._replace(max_timestamp_ms=at_ms)


THREE = (timed(1, 0, 9, DAY_MS), timed(2, 10, 19, 2 * DAY_MS), timed(3, 20, 29, 3 * DAY_MS))


def span(start: int = 0, end: int = 40, local_bytes: int = 100, lineage: tuple[tuple[int, int], ...] = LINE) -> LogSpan:
    return LogSpan(lineage, start, end, local_bytes)


def ids(found: Expiry) -> list[int]:
    return [int.from_bytes(one.segment.id, "big") for one in found.segments]


def test_what_is_too_old_goes_and_the_log_starts_after_it() -> None:
    found = expired(held(*THREE), span(), Retention(ms=DAY_MS), now_ms=3 * DAY_MS + 1)
    assert (ids(found), found.log_start_offset) == ([1, 2], 20)


def test_what_is_too_much_goes_counting_both_tiers_once() -> None:
    all_of_it = 3 * 100 + 100
    for limit, gone in ((all_of_it, []), (all_of_it - 1, []), (all_of_it - 100, [1]), (all_of_it - 250, [1, 2])):
        found = expired(held(*THREE), span(), Retention(bytes=limit), now_ms=0)
        assert (ids(found), found.log_start_offset) == (gone, 10 * len(gone))


def test_what_is_before_the_log_start_makes_nothing_else_go_by_size() -> None:
    rest = 2 * 100 + 100  # of the first, the announcement that it goes was not written before a crash
    found = expired(held(*THREE), span(start=10, lineage=((0, 10),)), Retention(bytes=rest), now_ms=0)
    assert (ids(found), found.log_start_offset) == ([1], 10)


def test_a_segment_of_unknown_age_is_never_old() -> None:
    unknown = timed(1, 0, 9, -1)
    assert ids(expired(held(unknown, THREE[1]), span(), Retention(ms=1), now_ms=9 * DAY_MS)) == []


def test_what_ends_before_the_log_start_goes_but_no_more() -> None:
    found = expired(held(*THREE), span(start=15, lineage=((0, 15),)), Retention(), now_ms=0)
    assert (ids(found), found.log_start_offset) == ([1], 15)


def test_a_segment_that_is_not_of_this_history_neither_goes_nor_keeps_others() -> None:
    forked = segment(4, 10, 25, (1, 10))  # a leader whose records this log never had
    line = ((0, 0), (1, 10), (2, 20))
    mine = (timed(1, 0, 9, DAY_MS), timed(2, 10, 19, DAY_MS, (1, 10)), timed(3, 20, 29, DAY_MS, (2, 20)))
    found = expired(held(*mine, forked), span(lineage=line), Retention(ms=1), now_ms=9 * DAY_MS)
    assert (ids(found), found.log_start_offset) == ([1, 2, 3], 30)


def test_segments_of_epochs_that_the_log_has_forgotten_go() -> None:
    found = expired(held(*THREE), span(start=30, lineage=((5, 30),)), Retention(), now_ms=0)
    assert (ids(found), found.log_start_offset) == ([1, 2, 3], 30)


def test_a_log_starts_where_something_has_its_first_record() -> None:
    node = Node()
    for one in THREE:
        node.copy(one)
    found = node.catalogue.partition(FOO.topic_id, 0)
    node.move(THREE[0], DELETING)
    starts = [first_readable(found, span(start=start), 30) for start in (0, 5, 10, 15, 30)]
    assert starts == [10, 10, 10, 15, 30]
    node.move(THREE[1], DELETING)
    node.move(THREE[2], DELETING)
    assert first_readable(found, span(start=10), 30) == 30  # nothing is left
    assert first_readable(found, span(start=10), 25) == 25


def test_a_catalogue_that_never_knew_what_the_disk_gave_away_moves_no_log_start() -> None:
    assert first_readable(held(), span(), 30) == 0
    assert first_readable(held(THREE[0]), span(start=10), 30) == 10
    assert first_readable(held(THREE[2]), span(), 20) == 0  # what it knows was copied later
    assert first_readable(held(THREE[2]), span(), 30) == 0


def test_a_log_start_moves_over_what_has_expired_and_not_over_what_was_lost_behind_it() -> None:
    node = Node()
    node.copy(THREE[0])
    node.move(THREE[0], DELETING)
    node.copy(THREE[2])
    found = node.catalogue.partition(FOO.topic_id, 0)
    assert [first_readable(found, span(start=start), 30) for start in (0, 10, 20)] == [10, 10, 20]


def test_a_copy_that_was_given_up_is_no_reason_to_move_the_log_start() -> None:
    node = Node()
    node.write(*node.catalogue.start_copy(FOO, THREE[0]).records)
    node.move(THREE[0], DELETING)
    assert first_readable(node.catalogue.partition(FOO.topic_id, 0), span(), 30) == 0


EPOCHS = (timed(1, 0, 9, DAY_MS, (0, 0)), timed(2, 10, 19, DAY_MS, (0, 10), (2, 15)), timed(3, 20, 29, 1, (2, 20)))


def test_a_log_that_has_lost_its_older_epochs_keeps_its_segments_and_finds_the_epochs_in_them() -> None:
    found = held(*EPOCHS)
    for lost in (((5, 30),), ((2, 20), (5, 30)), ()):
        log = span(lineage=lost, end=30 if not lost else 40)
        assert expired(found, log, Retention(), now_ms=0) == Expiry([], 0)
        whole = ((0, 0), (2, 15), *lost[-1:]) if lost else ((0, 0), (2, 15))
        assert found.reaching_back(lost, 0, log.log_end_offset) == whole
        assert first_readable(found, log._replace(lineage=whole), 30) == 0


def test_epochs_are_found_over_a_segment_that_is_missing_and_only_as_far_as_segments_go() -> None:
    found = held(EPOCHS[0], EPOCHS[2])
    assert found.reaching_back(((5, 40),), 0, 50) == ((0, 0), (2, 20), (5, 40))
    assert held(EPOCHS[2]).reaching_back(((5, 30),), 0, 40) == ((2, 20), (5, 30))
    assert found.reaching_back(((2, 15), (5, 40)), 15, 50) == ((2, 15), (5, 40))  # nothing is lost


def test_of_two_epochs_at_an_offset_that_one_counts_from_which_a_segment_goes_on_into_the_lineage() -> None:
    stranger = timed(4, 10, 29, DAY_MS, (3, 10))  # its leader was not followed by epoch 5
    assert held(EPOCHS[0], stranger).reaching_back(((5, 20),), 0, 40) == ((0, 0), (3, 10), (5, 20))
    goes_on = timed(5, 10, 29, DAY_MS, (0, 10), (5, 20))
    assert held(EPOCHS[0], stranger, goes_on).reaching_back(((5, 20),), 0, 40) == ((0, 0), (5, 20))


def test_a_log_without_epochs_keeps_everything() -> None:
    assert expired(held(*THREE), span(lineage=()), Retention(ms=1, bytes=0), now_ms=9 * DAY_MS) == Expiry([], 0)


def test_a_copy_that_nobody_is_at_any_more_is_found_and_one_that_a_broker_is_at_is_left_to_it() -> None:
    node = Node()
    for number, one in enumerate(THREE, 1):
        node.write(*node.catalogue.start_copy(FOO, one._replace(broker_id=number, event_timestamp_ms=5)).records)
    found = node.catalogue.partition(FOO.topic_id, 0)

    def ids_of(copiers: Copiers) -> tuple[list[int], list[int]]:
        both = own_leftovers(found, copiers), leftovers(found, copiers)
        own, all_ = ([int.from_bytes(one.id, "big") for one in each] for each in both)
        return own, all_

    assert ids_of(Copiers(1, {id_of(1)}, {1, 2, 3}, before_ms=5)) == ([], [])
    assert ids_of(Copiers(1, (), {1, 2, 3}, before_ms=5)) == ([1], [1])
    assert ids_of(Copiers(2, {id_of(2)}, {1, 2}, before_ms=5)) == ([], [3])
    assert ids_of(Copiers(2, {id_of(2)}, {1, 2, 3}, before_ms=6)) == ([], [1, 3])
    node.move(THREE[2], FINISHED)
    assert ids_of(Copiers(2, {id_of(2)}, {1, 2}, before_ms=5)) == ([], [])


def test_objects_go_only_when_the_deletion_was_announced_long_enough_ago() -> None:
    node = Node()
    for one in THREE:
        node.copy(one)
    node.move(THREE[0], DELETING)  # at 7 ms
    found = node.catalogue.partition(FOO.topic_id, 0)
    assert (to_remove(found, before_ms=6), [one.id for one in to_remove(found, before_ms=7)]) == ([], [id_of(1)])
    assert [one.segment.id for one in all_segments(found, "")] == [id_of(2), id_of(3)]


def test_what_is_covered_ends_where_a_segment_is_missing() -> None:
    found = held(*THREE)
    assert [found.covered_up_to(offset, LINE) for offset in (0, 5, 29, 30)] == [30, 30, 30, 30]
    assert found.covered_up_to(0, LINE, without={id_of(2)}) == 10
    assert found.copied_up_to(LINE, 40) == (29, 0)


def test_what_two_leaders_have_copied_counts_once() -> None:
    twice = segment(4, 10, 19, (0, 10))
    assert ids(expired(held(*THREE, twice), span(), Retention(bytes=3 * 100 + 100), now_ms=0)) == []
