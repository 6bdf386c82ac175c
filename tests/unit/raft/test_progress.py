"""What a leader knows of its followers."""

from __future__ import annotations

from raft_replica import key, voters
from raft_world import voter

from kavka.raft.progress import NEVER, Followers, ReplicaProgress
from kavka.raft.voters import ReplicaKey, VoterSet


def followers(*others: int) -> Followers:
    return Followers(key(1), voters(1, *others), 2_000, 0)


def progress_of(them: Followers, id_: int, now: int) -> ReplicaProgress:
    told = them.told(100, now)
    return next(progress for progress in told[0] + told[1] if progress.key.id == id_)


def test_who_fetches_the_end_has_caught_up_now_and_who_has_what_there_was_had_then():
    them = followers(2, 3)
    them.fetched(key(2), 10, 10, 5)
    assert progress_of(them, 2, 5).last_caught_up_ms == 5
    them.fetched(key(2), 10, 20, 6)
    them.fetched(key(2), 20, 30, 7)
    assert progress_of(them, 2, 7) == ReplicaProgress(key(2), 20, 7, 6)
    them.fetched(key(3), 5, 30, 7)
    assert progress_of(them, 3, 7).last_caught_up_ms == -1


def test_the_first_successor_is_the_one_with_the_longest_log():
    them = followers(2, 3, 4)
    them.fetched(key(3), 5, 9, 0)
    them.fetched(key(4), 7, 9, 0)
    assert them.successors() == (key(4), key(3), key(2))


def test_what_is_known_of_a_replica_stays_known_when_it_becomes_a_voter_or_is_one_no_more():
    them = followers(2)
    them.fetched(key(9), 5, 9, 0)
    them.synced(8)
    them.set_voters(voters(1, 2, 9), 0)
    assert them.majority_offset() == 5
    them.set_voters(voters(1, 2), 0)
    assert them.majority_offset() == -1
    assert them.is_caught_up(key(9), 0) is False
    assert progress_of(them, 9, 0).end_offset == 5


def test_a_voter_whose_directory_becomes_known_is_the_same():
    static = VoterSet(voter(id_)._replace(key=ReplicaKey(id_)) for id_ in (1, 2))
    them = Followers(key(1), static, 2_000, 0)
    them.fetched(key(2), 5, 9, 0)
    them.synced(9)
    them.set_voters(voters(1, 2), 0)
    assert them.majority_offset() == 5


def test_the_quorum_is_checked_only_while_there_are_others():
    them = followers()
    assert them.check_deadline_ms == NEVER
    them.set_voters(voters(1, 2), 50)
    assert them.check_deadline_ms == 3_050
    them.heard_from(key(2), 100)
    assert them.check_deadline_ms == 3_100
    them.set_voters(voters(1), 100)
    assert them.check_deadline_ms == NEVER


def test_a_leader_that_is_no_voter_needs_a_majority_of_the_others():
    them = followers(2, 3)
    them.set_voters(voters(2, 3), 0)
    them.heard_from(key(2), 100)
    assert them.check_deadline_ms == 3_000
    them.heard_from(key(3), 100)
    assert them.check_deadline_ms == 3_100


def test_who_was_not_heard_of_is_silent():
    them = followers(2, 3)
    them.fetched(key(2), 0, 0, 500)
    assert list(them.silent_since(400)) == [key(3)]
    assert list(them.silent_since(500)) == [key(2), key(3)]
