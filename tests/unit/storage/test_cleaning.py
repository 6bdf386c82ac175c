from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.storage.cleaning import assess, give_up, make_plan, take_in
from kavka.storage.compaction import compact

NOW = 1_700_000_000_000
HOUR = 3_600_000


@pytest.fixture
def kit(kit):
    """Five sealed segments of one batch each, an hour apart, and an empty active one."""
    kit.create(compact=True, delete=False, segment_bytes=len(kit.batch()) + 5)
    for number in range(5):
        kit.append(key=b"k", value=b"%d" % number, timestamp=NOW + number * HOUR)
    kit.log.roll(NOW)
    return kit


def look(kit, clean_offset=None, high_watermark=5, now=NOW):
    return assess(kit.log, clean_offset, high_watermark, now)


def test_everything_sealed_below_the_high_watermark_can_be_cleaned(kit):
    cleanable = look(kit)
    assert (cleanable.first_dirty_offset, cleanable.first_uncleanable_offset, cleanable.ratio) == (0, 5, 1.0)
    assert look(kit, high_watermark=3).first_uncleanable_offset == 3


def test_the_ratio_is_of_what_was_written_since(kit):
    size = len(kit.batch())
    cleanable = look(kit, clean_offset=4)
    assert (cleanable.clean_bytes, cleanable.cleanable_bytes, cleanable.ratio) == (4 * size, size, 0.2)
    assert not cleanable.due
    assert look(kit, clean_offset=1).due
    assert not look(kit, clean_offset=5).due


@pytest.mark.parametrize("clean_offset", [None, -1, 99])
def test_an_impossible_checkpoint_starts_at_the_log_start(kit, clean_offset):
    assert look(kit, clean_offset).first_dirty_offset == 0


def test_young_segments_wait_for_the_minimum_lag(kit):
    kit.log.config = replace(kit.config, min_compaction_lag_ms=HOUR)
    assert look(kit, now=NOW + 3 * HOUR).first_uncleanable_offset == 3
    assert look(kit, now=NOW + 100 * HOUR).first_uncleanable_offset == 5


def test_old_segments_do_not_wait_for_the_ratio(kit):
    kit.log.config = replace(kit.config, max_compaction_lag_ms=HOUR, min_cleanable_ratio=0.99)
    assert not look(kit, clean_offset=4, now=NOW + 5 * HOUR - 1).due
    assert look(kit, clean_offset=4, now=NOW + 5 * HOUR + 1).due


def test_the_active_segment_is_never_cleaned(kit):
    kit.append()
    assert look(kit, high_watermark=6).first_uncleanable_offset == 5


def test_an_empty_log_is_not_dirty(kit):
    kit.log.truncate_fully_and_start_at(0)
    cleanable = look(kit, high_watermark=0)
    assert (cleanable.ratio, cleanable.due) == (0.0, False)


def start(kit):
    plan = make_plan(look(kit), NOW, 1 << 16)
    return plan, compact(kit.disk, plan)


def left_over(kit):
    return sorted(name for name in kit.names() if name.endswith((".cleaned", ".swap")))


def test_results_are_swapped_in_and_leave_nothing_behind(kit):
    plan, result = start(kit)
    assert left_over(kit)
    assert take_in(kit.log, plan, result, NOW) == 5
    assert left_over(kit) == []
    assert [record.value for record in kit.records()] == [b"4"]


def test_a_log_that_was_cut_meanwhile_keeps_its_segments(kit):
    plan, result = start(kit)
    kit.log.truncate_to(4)
    kit.append(key=b"k", value=b"new", timestamp=NOW + 4 * HOUR)
    assert take_in(kit.log, plan, result, NOW) is None
    assert left_over(kit) == []
    assert [record.value for record in kit.records()] == [b"0", b"1", b"2", b"3", b"new"]


def test_segments_that_retention_removed_meanwhile_do_not_come_back(kit):
    plan, result = start(kit)
    kit.log.advance_log_start_offset(2, 5)
    kit.log.delete_old_segments(NOW, 5)
    assert take_in(kit.log, plan, result, NOW) == 5
    assert kit.bases()[0] == 2
    assert left_over(kit) == []


def test_writing_goes_on_while_a_worker_runs(kit):
    plan, result = start(kit)
    kit.append(key=b"k", value=b"later", timestamp=NOW)
    take_in(kit.log, plan, result, NOW)
    assert [record.value for record in kit.records()] == [b"4", b"later"]


def test_giving_up_removes_what_was_written(kit):
    plan, _ = start(kit)
    give_up(kit.log, plan)
    assert left_over(kit) == []
    assert len(kit.records()) == 5


def test_compact_and_delete_together_do_both(kit):
    kit.log.config = kit.config = replace(kit.config, delete=True, retention_ms=HOUR)
    kit.log.delete_old_segments(NOW + 4 * HOUR, 5)
    assert kit.log.log_start_offset == 3
    plan, result = start(kit)
    take_in(kit.log, plan, result, NOW)
    assert [record.value for record in kit.records()] == [b"4"]
