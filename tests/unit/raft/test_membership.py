"""Changing the voters: one at a time, only who is fit, in force when written, answered when committed."""

from __future__ import annotations

import pytest
from raft_log import Entry
from raft_replica import StartedReplica, key, of, reply_of, sent, voters
from raft_world import voter

from kavka.model.errors import InvalidUpdateVersion, NotLeaderOrFollower
from kavka.raft.core import Role
from kavka.raft.effects import ElectionState, HighWatermark, LostLeadership, Reply, WriteControl
from kavka.raft.messages import (
    AddVoter,
    AskVersions,
    BeginEpoch,
    FetchReply,
    RemoveVoter,
    UpdateVoter,
    VersionsReply,
    Vote,
    VoterChangeReply,
    VoteReply,
)
from kavka.raft.voters import ControlChange, ReplicaKey, Voter, VoterSet

NOT_LEADER, TIMED_OUT, UNSUPPORTED, INVALID, FENCED, DUPLICATE, NOT_FOUND = 6, 7, 35, 42, 74, 126, 127


def leader(*others: int, **options) -> StartedReplica:
    """A leader that has committed the beginning of its epoch, and has node 9 for an observer that has all."""
    replica = StartedReplica(*others, **options)
    replica.win()
    for id_ in others:
        replica.fetch(id_)
    replica.fetch(9)
    return replica


def moved(id_: int) -> Voter:
    """A voter that listens elsewhere."""
    here = voter(id_)
    return here._replace(endpoints=(here.endpoints[0]._replace(port=1),))


# -- adding ----------------------------------------------------------------------------------------------------------


def test_a_voter_is_added_in_three_steps_and_answered_when_that_is_committed():
    replica = leader(2, 3)
    effects = replica.ask(AddVoter(voter(9)))
    assert sent(effects) == {9: AskVersions()}
    effects = replica.answer(effects, 9, VersionsReply(0, 0, 1))
    assert effects == [WriteControl(1, voters(1, 2, 3, 9), None)]
    replica.write(effects)
    assert replica.raft.voters == voters(1, 2, 3, 9)
    assert replica.fetch(2) is not None
    effects = replica.fetch(3)
    assert of(HighWatermark, effects) == [HighWatermark(3)]
    assert of(Reply, effects)[0] == Reply("token", VoterChangeReply(0, "", 1, 1, voter(1).endpoints))


def test_a_new_voter_counts_as_soon_as_it_is_written():
    replica = leader(2, 3)
    replica.write(replica.answer(replica.ask(AddVoter(voter(9))), 9, VersionsReply(0, 0, 1)))
    assert not of(HighWatermark, replica.fetch(2))  # two of four
    assert of(HighWatermark, replica.fetch(9))


def test_a_second_voter_makes_a_sole_voter_wait_for_it():
    replica = StartedReplica()
    replica.write(replica.started)
    replica.pass_time(100_000)
    replica.fetch(9)
    replica.write(replica.answer(replica.ask(AddVoter(voter(9))), 9, VersionsReply(0, 0, 1)))
    assert replica.raft.high_watermark == 2
    assert replica.raft.is_leader
    replica.pass_time(2_999)
    assert replica.raft.is_leader
    assert of(HighWatermark, replica.fetch(9)) == [HighWatermark(3)]


def test_who_does_not_want_to_wait_is_answered_when_it_is_written():
    replica = leader(2, 3)
    effects = replica.answer(replica.ask(AddVoter(voter(9), False)), 9, VersionsReply(0, 0, 1))
    assert isinstance(effects[0], WriteControl)
    assert reply_of(effects).error == 0
    replica.write(effects)
    replica.fetch(2)
    assert reply_of(replica.ask(AddVoter(voter(8)))).error == TIMED_OUT  # the first is not done yet
    assert of(Reply, replica.fetch(3))[0].token == ("fetch", 3)  # not answered twice


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AddVoter(voter(3)), DUPLICATE),
        (AddVoter(voter(3, life=4)), DUPLICATE),
        (AddVoter(voter(9)._replace(key=ReplicaKey(9))), INVALID),
        (AddVoter(voter(9)._replace(key=voter(-1).key)), INVALID),
        (AddVoter(voter(9)._replace(endpoints=())), INVALID),
        (RemoveVoter(ReplicaKey(3)), INVALID),
        (RemoveVoter(key(8)), NOT_FOUND),
        (RemoveVoter(voter(3, life=4).key), NOT_FOUND),
        (UpdateVoter(1, voter(8)), NOT_FOUND),
        (UpdateVoter(1, voter(3, life=4)), NOT_FOUND),
        (UpdateVoter(1, voter(3)._replace(endpoints=())), INVALID),
        (UpdateVoter(1, voter(3)._replace(min_version=2, max_version=1)), INVALID),
        (UpdateVoter(1, voter(3)._replace(min_version=2, max_version=3)), INVALID),
        (UpdateVoter(1, voter(3)._replace(key=ReplicaKey(3))), INVALID),
        (UpdateVoter(0, voter(3)), FENCED),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(request_, error):
    reply = reply_of(leader(2, 3).ask(request_))
    assert (reply.error, reply.epoch, reply.leader_id) == (error, 1, 1)


@pytest.mark.parametrize(
    ("versions", "error"), [(None, TIMED_OUT), (VersionsReply(-1), TIMED_OUT), (VersionsReply(0, 0, 0), INVALID)]
)
def test_a_voter_that_does_not_know_the_version_is_not_added(versions, error):
    replica = leader(2, 3)
    effects = replica.answer(replica.ask(AddVoter(voter(9))), 9, versions)
    assert reply_of(effects).error == error
    assert not of(WriteControl, effects)


def test_a_voter_that_has_not_caught_up_is_not_added():
    replica = leader(2, 3)
    replica.append(*range(5))
    replica.fetch(8, 1)
    effects = replica.answer(replica.ask(AddVoter(voter(8))), 8, VersionsReply(0, 0, 1))
    assert reply_of(effects).error == TIMED_OUT
    stranger = replica.answer(replica.ask(AddVoter(voter(7))), 7, VersionsReply(0, 0, 1))
    assert reply_of(stranger).error == TIMED_OUT


def test_only_one_change_is_made_at_a_time():
    replica = leader(2, 3)
    replica.ask(AddVoter(voter(9)))
    for request in (AddVoter(voter(8)), RemoveVoter(key(2)), UpdateVoter(1, moved(2))):
        assert reply_of(replica.ask(request)).error == TIMED_OUT


def test_a_change_waits_for_the_former_to_be_committed():
    replica = leader(2, 3)
    replica.write(replica.ask(UpdateVoter(1, moved(2))))
    for request in (AddVoter(voter(9)), RemoveVoter(key(2)), UpdateVoter(1, moved(3))):
        assert reply_of(replica.ask(request)).error == TIMED_OUT
    replica.fetch(2)
    assert not of(Reply, replica.ask(RemoveVoter(key(2))))


def test_a_leader_that_has_committed_nothing_changes_nothing():
    replica = StartedReplica(2, 3)
    replica.win()
    assert reply_of(replica.ask(RemoveVoter(key(2)))).error == TIMED_OUT


def test_static_voters_cannot_be_changed():
    replica = leader(2, 3, kraft_version=0)
    assert reply_of(replica.ask(AddVoter(voter(9)))).error == UNSUPPORTED
    assert reply_of(replica.ask(RemoveVoter(key(2)))).error == UNSUPPORTED


def test_only_the_leader_changes_voters():
    replica = StartedReplica(2, 3, state=ElectionState(4, 2))
    for request in (AddVoter(voter(9)), RemoveVoter(key(2)), UpdateVoter(4, moved(3))):
        reply = reply_of(replica.ask(request))
        assert (reply.error, reply.leader_id, reply.leader_endpoints) == (NOT_LEADER, 2, voter(2).endpoints)


def test_a_change_that_takes_too_long_is_given_up():
    replica = leader(2, 3)
    replica.ask(AddVoter(voter(9)))
    assert not [reply for reply in of(Reply, replica.pass_time(1_999)) if reply.token == "token"]
    effects = replica.pass_time(1)
    assert [reply.reply.error for reply in of(Reply, effects) if reply.token == "token"] == [TIMED_OUT]


def test_a_change_ends_with_the_leadership():
    replica = leader(2, 3)
    replica.ask(AddVoter(voter(9)))
    effects = replica.ask(BeginEpoch(7, 2), "begin")
    reply = next(reply.reply for reply in of(Reply, effects) if reply.token == "token")
    assert (reply.error, reply.epoch, reply.leader_id) == (NOT_LEADER, 7, 2)


# -- removing --------------------------------------------------------------------------------------------------------


def test_a_voter_is_removed():
    replica = leader(2, 3)
    effects = replica.ask(RemoveVoter(key(3)))
    assert effects == [WriteControl(1, voters(1, 2), None)]
    replica.write(effects)
    effects = replica.fetch(2)
    assert of(Reply, effects)[0].reply.error == 0
    assert [one_.key for one_ in replica.raft.progress(replica.now)[0]] == [key(1), key(2)]


def test_the_last_voter_stays():
    replica = StartedReplica()
    replica.write(replica.started)
    assert reply_of(replica.ask(RemoveVoter(key(1)))).error == NOT_FOUND


def test_a_leader_that_is_removed_leads_until_that_is_committed_and_then_resigns():
    replica = leader(2, 3)
    replica.write(replica.ask(RemoveVoter(key(1))))
    assert replica.raft.is_leader
    assert not of(HighWatermark, replica.fetch(2))  # its own disk counts no more
    effects = replica.fetch(3)
    assert effects[:2] == [HighWatermark(3), Reply("token", VoterChangeReply(0, "", 1, 1, voter(1).endpoints))]
    assert of(LostLeadership, effects)
    assert sorted(sent(effects)) == [2, 3]
    assert replica.raft.role is Role.RESIGNED
    replica.pass_time(60_000)
    assert replica.raft.role is Role.OBSERVER


def test_a_removed_leader_resigns_even_if_nobody_waits_for_the_answer_any_more():
    replica = leader(2, 3)
    replica.write(replica.ask(RemoveVoter(key(1))))
    replica.fetch(2)
    replica.pass_time(2_000)
    assert of(LostLeadership, replica.fetch(3))


def test_who_alone_knows_of_its_removal_may_lead_once_more_without_a_vote_of_its_own():
    replica = StartedReplica(2, state=ElectionState(4, 2))
    replica.answer(replica.started, 2, FetchReply(0, 4, 2, records=["voters"]))
    replica.log.append([Entry(4, "voters")])
    replica.raft.on_appended(replica.now, [ControlChange(0, voters(2))])
    effects = replica.pass_time(2_000)
    assert replica.raft.role is Role.PROSPECTIVE
    effects = replica.answer(effects, 2, VoteReply(0, 4, granted=True))
    assert replica.raft.role is Role.CANDIDATE
    assert isinstance(sent(effects)[2], Vote)


def test_who_knows_that_its_removal_is_committed_never_stands():
    replica = StartedReplica(2, state=ElectionState(4, 2))
    replica.answer(replica.started, 2, FetchReply(0, 4, 2, high_watermark=1, records=["voters"]))
    replica.log.append([Entry(4, "voters")])
    replica.raft.on_appended(replica.now, [ControlChange(0, voters(2))])
    replica.sync()
    replica.pass_time(60_000)
    assert replica.raft.role is Role.OBSERVER


# -- updating --------------------------------------------------------------------------------------------------------


def test_a_voter_that_moved_is_written_and_answered_at_once():
    replica = leader(2, 3)
    effects = replica.ask(UpdateVoter(1, moved(2)))
    assert of(WriteControl, effects) == [WriteControl(1, VoterSet([voter(1), moved(2), voter(3)]), None)]
    assert reply_of(effects).error == 0


def test_a_follower_that_moved_tells_the_leader_once_in_a_while():
    replica = StartedReplica(2, 3, state=ElectionState(4, 2))
    replica.raft._node.me = moved(1)
    effects = replica.started
    for _ in range(5):
        replica.pass_time(500)
        effects = replica.answer(effects, 2, FetchReply(0, 4, 2))
        if isinstance(sent(effects).get(2), UpdateVoter):
            break
    assert sent(effects) == {2: UpdateVoter(4, moved(1))}
    effects = replica.answer(effects, 2, VoterChangeReply(0, "", 4, 2))
    assert not isinstance(sent(effects)[2], UpdateVoter)


def test_an_observer_joins_by_itself_if_it_is_told_to():
    replica = StartedReplica(2, 3, observer=True, state=ElectionState(4, 2), auto_join=True, request_timeout_ms=9_000)
    replica.pass_time(2_000)
    effects = replica.answer(replica.started, 2, FetchReply(0, 4, 2))
    assert sent(effects) == {2: AddVoter(voter(1), False)}
    assert 2 in sent(replica.answer(effects, 2, VoterChangeReply(TIMED_OUT)))


def test_an_observer_with_the_id_of_a_voter_has_that_one_removed_first():
    replica = StartedReplica(2, 3, observer=True, state=ElectionState(4, 2), auto_join=True, request_timeout_ms=9_000)
    old = voter(1, life=6)
    replica.raft.history.add([ControlChange(0, VoterSet([old, voter(2)]))])
    replica.pass_time(2_000)
    assert sent(replica.answer(replica.started, 2, FetchReply(0, 4, 2))) == {2: RemoveVoter(old.key)}


# -- the version -----------------------------------------------------------------------------------------------------


def test_the_version_is_raised_once_all_voters_have_described_themselves():
    replica = leader(2, 3, kraft_version=0)
    with pytest.raises(InvalidUpdateVersion, match="directory ids"):
        replica.raft.upgrade_kraft_version(1, replica.now)
    for id_ in (2, 3):
        assert reply_of(replica.ask(UpdateVoter(1, voter(id_)))).error == 0
    assert replica.raft.upgrade_kraft_version(1, replica.now, validate_only=True) == []
    effects = replica.raft.upgrade_kraft_version(1, replica.now)
    assert effects == [WriteControl(1, voters(1, 2, 3), 1)]
    replica.write(effects)
    assert (replica.raft.kraft_version, replica.raft.voters) == (1, voters(1, 2, 3))
    assert of(HighWatermark, replica.fetch(2))  # what was known of it stays known
    assert replica.raft.upgrade_kraft_version(1, replica.now) == []
    with pytest.raises(InvalidUpdateVersion, match="go back"):
        replica.raft.upgrade_kraft_version(0, replica.now)


def test_a_version_that_a_voter_does_not_know_is_not_set():
    replica = leader(2, kraft_version=0)
    replica.ask(UpdateVoter(1, voter(2)._replace(max_version=0)))
    with pytest.raises(InvalidUpdateVersion, match="not all voters"):
        replica.raft.upgrade_kraft_version(1, replica.now)


def test_only_the_leader_raises_the_version():
    with pytest.raises(NotLeaderOrFollower):
        StartedReplica(2, 3).raft.upgrade_kraft_version(1, 0)
