"""One request at a time to a destination, for so long, with pauses."""

from __future__ import annotations

from kavka.raft.connections import Connections
from kavka.raft.messages import AskVersions
from kavka.raft.progress import NEVER

ASK = AskVersions()


def test_a_destination_is_busy_until_it_answers():
    connections = Connections(100, 20, 7)
    first = connections.sent(2, ASK, 0)
    assert not connections.is_free(2)
    assert connections.any_under_way
    assert connections.answered(first + 1) is None
    assert connections.answered(first) == (2, ASK)
    assert connections.answered(first) is None
    assert connections.is_free(2)
    assert connections.sent(2, ASK, 0) != first


def test_a_destination_that_does_not_answer_is_free_again_after_a_while():
    connections = Connections(100, 20, 0)
    first = connections.sent(2, ASK, 0)
    assert connections.next_deadline_ms() == 100
    assert connections.expire(99) == []
    assert connections.expire(100) == [2]
    assert connections.is_free(2)
    assert connections.answered(first) is None
    assert connections.next_deadline_ms() == NEVER


def test_a_pause_is_no_request():
    connections = Connections(100, 20, 0)
    connections.pause(2, 0)
    assert connections.is_pausing(2)
    assert not connections.is_free(2)
    assert not connections.any_under_way
    assert connections.answered(-1) is None
    assert connections.expire(20) == []
    assert connections.is_free(2)


def test_all_can_be_forgotten():
    connections = Connections(100, 20, 0)
    first = connections.sent(2, ASK, 0)
    connections.clear()
    assert connections.is_free(2)
    assert connections.answered(first) is None
