"""Voter sets, and their history by offset."""

from __future__ import annotations

from raft_replica import key, voters
from raft_world import voter

from kavka.raft.voters import ControlChange, ReplicaKey, VoterHistory, VoterSet


def test_a_voter_is_an_id_in_a_directory_and_an_id_alone_where_the_directory_is_not_known():
    assert voters(1, 2).is_voter(key(2))
    assert not voters(1, 2).is_voter(voter(2, life=3).key)
    assert not voters(1, 2).is_voter(key(3))
    static = VoterSet([voter(2)._replace(key=ReplicaKey(2))])
    assert static.is_voter(key(2))
    assert static.is_only_voter(voter(2, life=3).key)
    assert not voters(1, 2).is_only_voter(key(1))


def test_sets_with_the_same_voters_are_equal():
    assert voters(1, 2) == voters(2, 1)
    assert hash(voters(1, 2)) == hash(voters(2, 1))
    assert voters(1, 2) != voters(1, 3)
    assert voters(1) != [voter(1)]
    assert "VoterSet" in repr(voters(1))


def test_a_set_is_changed_by_one_voter_or_not_at_all():
    assert voters(1).with_added(voter(2)) == voters(1, 2)
    assert voters(1, 2).with_added(voter(2, life=4)) is None
    assert voters(1, 2).without(key(2)) == voters(1)
    assert voters(1, 2).without(ReplicaKey(2)) is None
    assert voters(1).without(key(1)) is None
    moved = voter(2)._replace(endpoints=())
    assert voters(1, 2).needs_update(moved)
    assert not voters(1, 2).needs_update(voter(2))
    assert voters(1, 2).with_updated(moved) == VoterSet([voter(1), moved])
    assert voters(1, 2).with_updated(voter(2, life=4)) is None
    assert voters(1, 2).with_updated(voter(2, life=4), any_directory=True) == VoterSet([voter(1), voter(2, life=4)])
    assert voters(1, 2).with_updated(voter(3), any_directory=True) is None


def test_the_last_set_in_the_log_is_in_force_and_else_the_configured_one():
    history = VoterHistory(voters(1))
    assert (history.voters, history.voters_offset, history.kraft_version) == (voters(1), None, 0)
    history.add([ControlChange(4, voters(1, 2), 1), ControlChange(9, voters(1, 2, 3))])
    assert (history.voters, history.voters_offset, history.kraft_version) == (voters(1, 2, 3), 9, 1)
    assert history.former_voters == voters(1, 2)


def test_what_is_truncated_is_no_longer_in_force():
    history = VoterHistory(voters(1), [ControlChange(4, voters(1, 2), 1), ControlChange(9, voters(1, 2, 3))])
    history.truncate(10)
    assert history.voters == voters(1, 2, 3)
    history.truncate(9)
    assert history.voters == voters(1, 2)
    history.truncate(0)
    assert (history.voters, history.kraft_version) == (voters(1), 0)


def test_a_snapshot_says_what_was_in_force_at_its_end():
    history = VoterHistory(voters(1), [ControlChange(4, voters(1, 2), 1), ControlChange(9, voters(1, 2, 3))])
    assert history.at(3) == (0, voters(1))
    assert history.at(4) == (1, voters(1, 2))
    assert history.at(8) == (1, voters(1, 2))
    assert history.at(9) == (1, voters(1, 2, 3))


def test_what_a_snapshot_covers_is_forgotten_but_for_what_is_in_force():
    history = VoterHistory(voters(1), [ControlChange(4, voters(1, 2), 1), ControlChange(9, voters(1, 2, 3), 1)])
    history.forget_before(8)
    assert history.at(8) == (1, voters(1, 2))
    history.forget_before(9)
    assert history.former_voters is None
    assert history.voters == voters(1, 2, 3)
    history.replace([ControlChange(20, voters(4), 1)])
    assert (history.voters, history.voters_offset) == (voters(4), 20)
