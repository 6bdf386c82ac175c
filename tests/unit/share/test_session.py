"""Share sessions: their epochs, their partitions and the connection they belong to."""

from __future__ import annotations

import pytest

from kavka.model.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from kavka.share.session import FINAL_EPOCH, MAX_EPOCH, Closed, SessionKey, ShareSessions, next_epoch, rotated

ME = SessionKey("g", "me")
OTHER = SessionKey("g", "other")


def fetch(sessions, epoch, named=(), forgotten=(), key=ME, acknowledges=False, connection="c1", limit=2):
    return sessions.fetch(key, epoch, named, forgotten, acknowledges, connection, limit)


def test_a_session_goes_from_epoch_to_epoch():
    sessions: ShareSessions[str] = ShareSessions()
    assert fetch(sessions, 0, ["a", "b"]).epoch == 1
    assert fetch(sessions, 1).epoch == 2
    assert sessions.acknowledge(ME, 2).epoch == 3
    assert list(fetch(sessions, 3, ["c"], ["a"]).partitions) == ["b", "c"]
    assert next_epoch(MAX_EPOCH) == 1


@pytest.mark.parametrize("epoch", [0, 2, 7, -2])
def test_another_epoch_is_refused(epoch):
    sessions: ShareSessions[str] = ShareSessions()
    fetch(sessions, 0)
    with pytest.raises(InvalidShareSessionEpoch):
        sessions.acknowledge(ME, epoch)
    if epoch:
        with pytest.raises(InvalidShareSessionEpoch):
            fetch(sessions, epoch)


@pytest.mark.parametrize("epoch", [1, FINAL_EPOCH])
def test_a_session_that_is_not_there_is_not_found(epoch):
    with pytest.raises(ShareSessionNotFound):
        fetch(ShareSessions(), epoch)
    with pytest.raises(ShareSessionNotFound):
        ShareSessions().acknowledge(ME, epoch)


def test_the_first_request_acknowledges_nothing():
    sessions: ShareSessions[str] = ShareSessions()
    fetch(sessions, 0)
    with pytest.raises(InvalidRequest):
        fetch(sessions, 0, acknowledges=True)
    assert sessions.get(ME) is not None


def test_the_last_request_keeps_the_session_until_it_is_removed():
    sessions: ShareSessions[str] = ShareSessions()
    fetch(sessions, 0, ["a"])
    assert fetch(sessions, FINAL_EPOCH, ["b"]).epoch == 1
    assert sessions.remove(ME) == ("a",)
    assert sessions.remove(ME) == ()


def test_there_are_no_more_sessions_than_may_be():
    sessions: ShareSessions[str] = ShareSessions()
    fetch(sessions, 0)
    fetch(sessions, 0, key=OTHER, connection="c2")
    fetch(sessions, 0)  # instead of its old one
    with pytest.raises(ShareSessionLimitReached):
        fetch(sessions, 0, key=SessionKey("g", "third"), connection="c3")
    assert len(sessions) == 2


def test_a_connection_takes_its_session_with_it_and_the_last_one_its_group():
    sessions: ShareSessions[str] = ShareSessions()
    fetch(sessions, 0, ["a"])
    fetch(sessions, 0, ["b"], key=OTHER, connection="c2")
    assert sessions.disconnected("c1") == Closed(ME, ("a",), None)
    assert sessions.disconnected("c2") == Closed(OTHER, ("b",), "g")
    assert sessions.disconnected("c2") == Closed(None, (), None)


def test_a_session_that_was_opened_again_elsewhere_outlives_its_first_connection():
    sessions: ShareSessions[str] = ShareSessions()
    fetch(sessions, 0)
    fetch(sessions, 0, connection="c2")
    assert sessions.disconnected("c1") == Closed(None, (), None)
    assert sessions.get(ME) is not None


def test_an_answer_names_what_is_new_what_failed_and_what_has_records():
    session = fetch(ShareSessions(), 0, ["a", "b"])
    session.update(["c"], [])
    assert session.must_answer("c", has_records=False, has_error=False)
    assert not session.must_answer("c", has_records=False, has_error=False)
    assert session.must_answer("b", has_records=False, has_error=True)
    assert session.must_answer("b", has_records=False, has_error=False)  # that it is well again
    assert not session.must_answer("b", has_records=False, has_error=False)
    assert session.must_answer("a", has_records=True, has_error=False)
    assert list(session.partitions) == ["b", "c", "a"]


def test_each_epoch_begins_with_another_partition():
    assert [rotated(["a", "b", "c"], epoch)[0] for epoch in (0, 1, 2, 3, 4)] == ["a", "b", "c", "a", "b"]
