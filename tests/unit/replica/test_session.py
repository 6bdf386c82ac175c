"""The asking side of a fetch session: what is said once is not said again."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.replica.session import MAX_EPOCH, Asked, FetchSession

A, B = (Uuid(b"a" * 16), 0), (Uuid(b"b" * 16), 0)


def row(offset):
    return Asked(1, offset, 1, 0, 100)


def test_the_first_request_says_everything_and_the_next_only_what_is_new():
    session = FetchSession()
    assert session.ask({A: row(0), B: row(0)}) == (0, 0, {A: row(0), B: row(0)}, ())
    session.answered(7)
    assert session.ask({A: row(5), B: row(0)}) == (7, 1, {A: row(5)}, [])
    session.answered(7)
    assert session.ask({}) == (7, 2, {}, [])


def test_what_is_not_wanted_any_more_is_forgotten_once():
    session = FetchSession()
    session.ask({A: row(0), B: row(0)})
    session.answered(7)
    assert session.ask({A: None}) == (7, 1, {}, [A])
    session.answered(7)
    assert session.ask({A: None}) == (7, 2, {}, [])


def test_after_a_failure_everything_is_said_again_and_the_old_session_named():
    session = FetchSession()
    session.ask({A: row(0)})
    session.answered(7)
    session.ask({A: row(5)})
    session.restart()
    assert session.ask({}) == (7, 0, {A: row(5)}, ())
    session.restart(known=False)
    assert session.ask({})[:2] == (0, 0)


def test_a_leader_that_keeps_no_session_is_told_everything_each_time():
    session = FetchSession()
    session.ask({A: row(0)})
    session.answered(0)
    assert session.ask({}) == (0, 0, {A: row(0)}, ())


def test_the_epoch_wraps_to_1():
    session = FetchSession()
    session.ask({A: row(0)})
    session.answered(7)
    session._epoch = MAX_EPOCH
    session.answered(7)
    assert session.ask({}).session_epoch == 1
