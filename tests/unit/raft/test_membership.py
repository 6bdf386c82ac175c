"""Changing the voters: one at a time, only who is fit, in force when written, answered when committed."""

from __future__ import annotations

import pytest
from raft_log import Entry
from raft_one import One, key, of, reply_of, sent, voters
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


def leader(*others: int, **options) -> One:
    """A leader that has committed the beginning of its epoch, and has node 9 for an observer that has all."""
    one = One(*others, **options)
    one.win()
    for id_ in others:
        one.fetch(id_)
    one.fetch(9)
    return one


def moved(id_: int) -> Voter:
    """A voter that listens elsewhere."""
    here = voter(id_)
    return here._replace(endpoints=(here.endpoints[0]._replace(port=1),))


# -- adding ----------------------------------------------------------------------------------------------------------


def test_a_voter_is_added_in_three_steps_and_answered_when_that_is_committed():
    one = leader(2, 3)
    effects = one.ask(AddVoter(voter(9)))
    assert sent(effects) == {9: AskVersions()}
    effects = one.answer(effects, 9, VersionsReply(0, 0, 1))
    assert effects == [WriteControl(1, voters(1, 2, 3, 9), None)]
    one.write(effects)
    assert one.raft.voters == voters(1, 2, 3, 9)
    assert one.fetch(2) is not None
    effects = one.fetch(3)
    assert of(HighWatermark, effects) == [HighWatermark(3)]
    assert of(Reply, effects)[0] == Reply("token", VoterChangeReply(0, "", 1, 1, voter(1).endpoints))


def test_a_new_voter_counts_as_soon_as_it_is_written():
    one = leader(2, 3)
    one.write(one.answer(one.ask(AddVoter(voter(9))), 9, VersionsReply(0, 0, 1)))
    assert not of(HighWatermark, one.fetch(2))  # two of four
    assert of(HighWatermark, one.fetch(9))


def test_a_second_voter_makes_a_sole_voter_wait_for_it():
    one = One()
    one.write(one.started)
    one.pass_time(100_000)
    one.fetch(9)
    one.write(one.answer(one.ask(AddVoter(voter(9))), 9, VersionsReply(0, 0, 1)))
    assert one.raft.high_watermark == 2
    assert one.raft.is_leader
    one.pass_time(2_999)
    assert one.raft.is_leader
    assert of(HighWatermark, one.fetch(9)) == [HighWatermark(3)]


def test_who_does_not_want_to_wait_is_answered_when_it_is_written():
    one = leader(2, 3)
    effects = one.answer(one.ask(AddVoter(voter(9), False)), 9, VersionsReply(0, 0, 1))
    assert isinstance(effects[0], WriteControl)
    assert reply_of(effects).error == 0
    one.write(effects)
    one.fetch(2)
    assert reply_of(one.ask(AddVoter(voter(8)))).error == TIMED_OUT  # the first is not done yet
    assert of(Reply, one.fetch(3))[0].token == ("fetch", 3)  # not answered twice


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
    one = leader(2, 3)
    effects = one.answer(one.ask(AddVoter(voter(9))), 9, versions)
    assert reply_of(effects).error == error
    assert not of(WriteControl, effects)


def test_a_voter_that_has_not_caught_up_is_not_added():
    one = leader(2, 3)
    one.append(*range(5))
    one.fetch(8, 1)
    effects = one.answer(one.ask(AddVoter(voter(8))), 8, VersionsReply(0, 0, 1))
    assert reply_of(effects).error == TIMED_OUT
    stranger = one.answer(one.ask(AddVoter(voter(7))), 7, VersionsReply(0, 0, 1))
    assert reply_of(stranger).error == TIMED_OUT


def test_only_one_change_is_made_at_a_time():
    one = leader(2, 3)
    one.ask(AddVoter(voter(9)))
    for request in (AddVoter(voter(8)), RemoveVoter(key(2)), UpdateVoter(1, moved(2))):
        assert reply_of(one.ask(request)).error == TIMED_OUT


def test_a_change_waits_for_the_former_to_be_committed():
    one = leader(2, 3)
    one.write(one.ask(UpdateVoter(1, moved(2))))
    for request in (AddVoter(voter(9)), RemoveVoter(key(2)), UpdateVoter(1, moved(3))):
        assert reply_of(one.ask(request)).error == TIMED_OUT
    one.fetch(2)
    assert not of(Reply, one.ask(RemoveVoter(key(2))))


def test_a_leader_that_has_committed_nothing_changes_nothing():
    one = One(2, 3)
    one.win()
    assert reply_of(one.ask(RemoveVoter(key(2)))).error == TIMED_OUT


def test_static_voters_cannot_be_changed():
    one = leader(2, 3, kraft_version=0)
    assert reply_of(one.ask(AddVoter(voter(9)))).error == UNSUPPORTED
    assert reply_of(one.ask(RemoveVoter(key(2)))).error == UNSUPPORTED


def test_only_the_leader_changes_voters():
    one = One(2, 3, state=ElectionState(4, 2))
    for request in (AddVoter(voter(9)), RemoveVoter(key(2)), UpdateVoter(4, moved(3))):
        reply = reply_of(one.ask(request))
        assert (reply.error, reply.leader_id, reply.leader_endpoints) == (NOT_LEADER, 2, voter(2).endpoints)


def test_a_change_that_takes_too_long_is_given_up():
    one = leader(2, 3)
    one.ask(AddVoter(voter(9)))
    assert not [reply for reply in of(Reply, one.pass_time(1_999)) if reply.token == "token"]
    effects = one.pass_time(1)
    assert [reply.reply.error for reply in of(Reply, effects) if reply.token == "token"] == [TIMED_OUT]


def test_a_change_ends_with_the_leadership():
    one = leader(2, 3)
    one.ask(AddVoter(voter(9)))
    effects = one.ask(BeginEpoch(7, 2), "begin")
    reply = next(reply.reply for reply in of(Reply, effects) if reply.token == "token")
    assert (reply.error, reply.epoch, reply.leader_id) == (NOT_LEADER, 7, 2)


# -- removing --------------------------------------------------------------------------------------------------------


def test_a_voter_is_removed():
    one = leader(2, 3)
    effects = one.ask(RemoveVoter(key(3)))
    assert effects == [WriteControl(1, voters(1, 2), None)]
    one.write(effects)
    effects = one.fetch(2)
    assert of(Reply, effects)[0].reply.error == 0
    assert [one_.key for one_ in one.raft.progress(one.now)[0]] == [key(1), key(2)]


def test_the_last_voter_stays():
    one = One()
    one.write(one.started)
    assert reply_of(one.ask(RemoveVoter(key(1)))).error == NOT_FOUND


def test_a_leader_that_is_removed_leads_until_that_is_committed_and_then_resigns():
    one = leader(2, 3)
    one.write(one.ask(RemoveVoter(key(1))))
    assert one.raft.is_leader
    assert not of(HighWatermark, one.fetch(2))  # its own disk counts no more
    effects = one.fetch(3)
    assert effects[:2] == [HighWatermark(3), Reply("token", VoterChangeReply(0, "", 1, 1, voter(1).endpoints))]
    assert of(LostLeadership, effects)
    assert sorted(sent(effects)) == [2, 3]
    assert one.raft.role is Role.RESIGNED
    one.pass_time(60_000)
    assert one.raft.role is Role.OBSERVER


def test_a_removed_leader_resigns_even_if_nobody_waits_for_the_answer_any_more():
    one = leader(2, 3)
    one.write(one.ask(RemoveVoter(key(1))))
    one.fetch(2)
    one.pass_time(2_000)
    assert of(LostLeadership, one.fetch(3))


def test_who_alone_knows_of_its_removal_may_lead_once_more_without_a_vote_of_its_own():
    one = One(2, state=ElectionState(4, 2))
    one.answer(one.started, 2, FetchReply(0, 4, 2, records=["voters"]))
    one.log.append([Entry(4, "voters")])
    one.raft.on_appended(one.now, [ControlChange(0, voters(2))])
    effects = one.pass_time(2_000)
    assert one.raft.role is Role.PROSPECTIVE
    effects = one.answer(effects, 2, VoteReply(0, 4, granted=True))
    assert one.raft.role is Role.CANDIDATE
    assert isinstance(sent(effects)[2], Vote)


def test_who_knows_that_its_removal_is_committed_never_stands():
    one = One(2, state=ElectionState(4, 2))
    one.answer(one.started, 2, FetchReply(0, 4, 2, high_watermark=1, records=["voters"]))
    one.log.append([Entry(4, "voters")])
    one.raft.on_appended(one.now, [ControlChange(0, voters(2))])
    one.sync()
    one.pass_time(60_000)
    assert one.raft.role is Role.OBSERVER


# -- updating --------------------------------------------------------------------------------------------------------


def test_a_voter_that_moved_is_written_and_answered_at_once():
    one = leader(2, 3)
    effects = one.ask(UpdateVoter(1, moved(2)))
    assert of(WriteControl, effects) == [WriteControl(1, VoterSet([voter(1), moved(2), voter(3)]), None)]
    assert reply_of(effects).error == 0


def test_a_follower_that_moved_tells_the_leader_once_in_a_while():
    one = One(2, 3, state=ElectionState(4, 2))
    one.raft._node.me = moved(1)
    effects = one.started
    for _ in range(5):
        one.pass_time(500)
        effects = one.answer(effects, 2, FetchReply(0, 4, 2))
        if isinstance(sent(effects).get(2), UpdateVoter):
            break
    assert sent(effects) == {2: UpdateVoter(4, moved(1))}
    effects = one.answer(effects, 2, VoterChangeReply(0, "", 4, 2))
    assert not isinstance(sent(effects)[2], UpdateVoter)


def test_an_observer_joins_by_itself_if_it_is_told_to():
    one = One(2, 3, observer=True, state=ElectionState(4, 2), auto_join=True, request_timeout_ms=9_000)
    one.pass_time(2_000)
    effects = one.answer(one.started, 2, FetchReply(0, 4, 2))
    assert sent(effects) == {2: AddVoter(voter(1), False)}
    assert 2 in sent(one.answer(effects, 2, VoterChangeReply(TIMED_OUT)))


def test_an_observer_with_the_id_of_a_voter_has_that_one_removed_first():
    one = One(2, 3, observer=True, state=ElectionState(4, 2), auto_join=True, request_timeout_ms=9_000)
    old = voter(1, life=6)
    one.raft.history.add([ControlChange(0, VoterSet([old, voter(2)]))])
    one.pass_time(2_000)
    assert sent(one.answer(one.started, 2, FetchReply(0, 4, 2))) == {2: RemoveVoter(old.key)}


# -- the version -----------------------------------------------------------------------------------------------------


def test_the_version_is_raised_once_all_voters_have_described_themselves():
    one = leader(2, 3, kraft_version=0)
    with pytest.raises(InvalidUpdateVersion, match="directory ids"):
        one.raft.upgrade_kraft_version(1, one.now)
    for id_ in (2, 3):
        assert reply_of(one.ask(UpdateVoter(1, voter(id_)))).error == 0
    assert one.raft.upgrade_kraft_version(1, one.now, validate_only=True) == []
    effects = one.raft.upgrade_kraft_version(1, one.now)
    assert effects == [WriteControl(1, voters(1, 2, 3), 1)]
    one.write(effects)
    assert (one.raft.kraft_version, one.raft.voters) == (1, voters(1, 2, 3))
    assert of(HighWatermark, one.fetch(2))  # what was known of it stays known
    assert one.raft.upgrade_kraft_version(1, one.now) == []
    with pytest.raises(InvalidUpdateVersion, match="go back"):
        one.raft.upgrade_kraft_version(0, one.now)


def test_a_version_that_a_voter_does_not_know_is_not_set():
    one = leader(2, kraft_version=0)
    one.ask(UpdateVoter(1, voter(2)._replace(max_version=0)))
    with pytest.raises(InvalidUpdateVersion, match="not all voters"):
        one.raft.upgrade_kraft_version(1, one.now)


def test_only_the_leader_raises_the_version():
    with pytest.raises(NotLeaderOrFollower):
        One(2, 3).raft.upgrade_kraft_version(1, 0)
