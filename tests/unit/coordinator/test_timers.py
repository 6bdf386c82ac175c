"""Deadlines: a timer is set only when it would otherwise be too late."""

from __future__ import annotations

from kavka.coordinator.timers import SESSION, Deadlines, TimerKey
from kavka.model.transition import CancelTimer, SetTimer

KEY = TimerKey(SESSION, "g", "m")


def test_a_deadline_that_is_put_off_keeps_its_timer():
    deadlines = Deadlines()
    assert deadlines.put(KEY, 10) == (SetTimer(KEY, 10),)
    assert deadlines.put(KEY, 20) == ()
    assert deadlines.fire(KEY, 10) == (False, (SetTimer(KEY, 20),))
    assert deadlines.fire(KEY, 20) == (True, ())
    assert KEY not in deadlines


def test_a_deadline_that_comes_nearer_sets_its_timer_anew():
    deadlines = Deadlines()
    deadlines.put(KEY, 20)
    assert deadlines.put(KEY, 10) == (SetTimer(KEY, 10),)


def test_a_timer_without_a_deadline_does_nothing():
    deadlines = Deadlines()
    assert deadlines.drop(KEY) == ()
    deadlines.put(KEY, 10)
    assert deadlines.drop(KEY) == (CancelTimer(KEY),)
    assert deadlines.fire(KEY, 10) == (False, ())
