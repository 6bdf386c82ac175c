"""The simulated log does with epochs what the shipped one does."""

from __future__ import annotations

from kavka.testing.sim.disk import SimLog


def test_a_log_cut_to_its_start_forgets_an_epoch_that_wrote_nothing() -> None:
    log = SimLog()
    log.assign(1, 0)
    log.truncate(0)
    assert log.latest == -1


def test_a_log_that_starts_after_a_snapshot_keeps_the_snapshots_epoch() -> None:
    log = SimLog()
    log.restart(10, 3)
    log.append(["a", "b"], 4)
    log.truncate(10)
    assert (log.latest, log.last_epoch, log.end_offset) == (3, 3, 10)


def test_a_cut_in_the_middle_keeps_the_epochs_before_it() -> None:
    log = SimLog()
    log.append(["a", "b"], 1)
    log.append(["c"], 2)
    log.truncate(1)
    assert log.epochs == [(1, 0)]
    assert log.end_offset_for(2, log.end_offset) == (-1, -1)
