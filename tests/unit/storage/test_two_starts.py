"""Where a log begins for its clients, and where it begins on this disk: apart only if a tier has what lies between."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.model.errors import OffsetOutOfRange
from kavka.storage.loader import load_log

HOUR_MS = 3_600_000
NOW = 1_700_000_000_000


def fill(kit, **config):
    """Five segments of one batch each, an hour apart and each of another epoch, and an empty active one."""
    kit.create(segment_bytes=len(kit.batch()), **config)
    for number in range(5):
        kit.append(timestamp=NOW + number * HOUR_MS, epoch=number)
    kit.log.roll(NOW)
    return kit.log


def starts(log):
    return log.log_start_offset, log.local_log_start_offset


def test_without_a_tier_both_starts_move_together(kit):
    log = fill(kit, retention_ms=HOUR_MS, local_retention_ms=1)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5)
    assert starts(log) == (3, 3)
    assert log.epochs.earliest == (3, 3)


def test_with_a_tier_only_the_local_start_moves_and_only_as_far_as_the_tier_goes(kit):
    log = fill(kit, retention_ms=-1, local_retention_ms=HOUR_MS)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5, tiered_end_offset=2)
    assert kit.bases() == [2, 3, 4, 5]
    assert starts(log) == (0, 2)
    assert log.epochs.earliest == (0, 0)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000, 5)


def test_a_segment_that_a_crash_brings_back_is_checked(kit):
    log = fill(kit, retention_ms=-1, local_retention_ms=HOUR_MS)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5, tiered_end_offset=2)
    point = log.recovery_point  # what a checkpoint may hold before the names are forced
    for path in Path(kit.path).glob("*.deleted"):
        path.rename(path.with_suffix(""))
    torn = Path(kit.path, f"{1:020d}.log")
    torn.write_bytes(torn.read_bytes()[:-1])
    kit.load(recovery_point=point)
    assert kit.log.log_end_offset == 1  # what follows a hole is fetched again


def test_once_its_names_are_forced_a_deletion_moves_the_recovery_point(kit):
    log = fill(kit, retention_ms=-1, local_retention_ms=HOUR_MS)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5, tiered_end_offset=2)
    log.sync()
    assert log.recovery_point == 5


def test_a_local_limit_that_is_not_set_is_that_of_the_whole(kit):
    log = fill(kit, retention_ms=HOUR_MS)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5, tiered_end_offset=5)
    assert starts(log) == (0, 3)


def test_a_local_size_counts_what_is_on_this_disk(kit):
    log = fill(kit, retention_bytes=-1, local_retention_bytes=2 * len(kit.batch()))
    log.delete_old_segments(NOW, 5, tiered_end_offset=5)
    assert starts(log) == (0, 3)


def test_deleted_records_take_the_local_start_along_and_their_segments_go_without_the_tier(kit):
    log = fill(kit, retention_ms=-1, local_retention_ms=-1)
    log.advance_log_start_offset(3, 5)
    assert starts(log) == (3, 3)
    log.delete_old_segments(NOW, 5, tiered_end_offset=0)
    assert kit.bases() == [3, 4, 5]


def test_a_log_start_behind_the_local_one_moves_alone(kit):
    log = fill(kit, retention_ms=-1, local_retention_ms=HOUR_MS)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5, tiered_end_offset=5)
    log.advance_log_start_offset(1, 5)
    assert starts(log) == (1, 3)
    assert log.epochs.earliest == (1, 1)


@pytest.mark.parametrize(("tiered", "expected"), [(True, (1, 3)), (False, (3, 3))])
def test_only_a_tiered_log_is_loaded_with_a_start_before_its_first_segment(kit, tiered, expected):
    log = fill(kit, retention_ms=-1, local_retention_ms=HOUR_MS)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5, tiered_end_offset=5)
    log.close()
    again, _ = load_log(
        kit.disk, kit.path, log.topic_partition, kit.config, clean=True, log_start_offset=1, now_ms=NOW, tiered=tiered
    )
    assert starts(again) == expected
    assert again.epochs.earliest == (expected[0], expected[0])


def test_starting_over_may_leave_what_is_elsewhere(kit):
    log = fill(kit)
    log.truncate_fully_and_start_at(9, log_start_offset=4)
    assert starts(log) == (4, 9)
    log.truncate_fully_and_start_at(12)
    assert starts(log) == (12, 12)


def test_a_cut_below_a_start_takes_it_back(kit):
    log = fill(kit)
    log.advance_log_start_offset(3, 5)
    log.truncate_to(2)
    assert starts(log) == (2, 2)


def test_a_search_by_time_begins_at_the_local_start(kit):
    log = fill(kit, retention_ms=-1)
    log.advance_log_start_offset(2, 5)
    found = kit.first_at(0)
    assert found is not None
    assert found.offset == 2


def test_a_cut_below_the_first_local_segment_leaves_what_is_in_tiered_storage(kit):
    log = fill(kit, retention_ms=-1, local_retention_ms=HOUR_MS)
    log.delete_old_segments(NOW + 3 * HOUR_MS + 1, 5, tiered_end_offset=5)
    assert starts(log) == (0, 3)
    log.truncate_to(2)
    assert starts(log) == (0, 2)
    assert log.log_end_offset == 2
    assert log.epochs.entries == ((0, 0), (1, 1))


def test_a_log_that_starts_after_tiered_storage_remembers_its_epochs_over_a_crash(kit):
    log = fill(kit)
    log.sync()
    log.start_after(9, 4, [(2, 0), (7, 6)], None, NOW)
    log, _ = load_log(
        kit.disk, kit.path, log.topic_partition, kit.config, clean=False, log_start_offset=4, now_ms=NOW, tiered=True
    )
    assert starts(log) == (4, 9)
    assert log.epochs.entries == ((2, 4), (7, 6))
