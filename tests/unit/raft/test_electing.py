"""Elections: who votes for whom, and when a replica stands itself."""

from __future__ import annotations

import pytest
from raft_replica import NOW, StartedReplica, key, of, reply_of, sent
from raft_world import voter

from kavka.raft.core import Role
from kavka.raft.effects import BecomeLeader, ElectionState, LeaderChanged, LostLeadership, Persist, Reply
from kavka.raft.messages import (
    AskVersions,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    Vote,
    VoteReply,
)

FENCED, INVALID, NOT_FOR_ME, UNSUPPORTED = 74, 42, 125, 35


def vote(epoch, candidate, last_epoch=0, last_offset=0, **fields):
    return Vote(epoch, key(candidate), last_epoch, last_offset, **fields)


# -- voting ----------------------------------------------------------------------------------------------------------


def test_a_vote_is_on_the_disk_before_it_is_given():
    effects = StartedReplica(2, 3).ask(vote(5, 2))
    state = ElectionState(5, -1, key(2))
    assert effects[:2] == [Persist(state), Reply("token", VoteReply(0, 5, -1, True))]


def test_a_second_candidate_of_an_epoch_is_refused_but_the_first_may_ask_again():
    replica = StartedReplica(2, 3)
    replica.ask(vote(5, 2))
    assert replica.raft.role is Role.VOTED
    assert reply_of(replica.ask(vote(5, 3))) == VoteReply(0, 5, -1, False)
    assert reply_of(replica.ask(vote(5, 2))).granted


def test_a_candidate_in_another_directory_is_another_candidate():
    replica = StartedReplica(2, 3)
    replica.ask(vote(5, 2))
    assert not reply_of(replica.ask(Vote(5, voter(2, life=7).key, 0, 0))).granted


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"), [(2, 3, True), (2, 4, True), (3, 0, True), (2, 2, False), (1, 9, False)]
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_only_a_log_that_is_as_long_gets_a_vote(last_epoch, last_offset, granted, pre_vote):
    replica = StartedReplica(2, 3, epochs=(1, 1, 2))
    reply = reply_of(replica.ask(vote(5, 2, last_epoch, last_offset, pre_vote=pre_vote)))
    assert (reply.error, reply.granted) == (0, granted)


def test_another_node_with_this_ones_id_gets_no_vote():
    assert not reply_of(StartedReplica(2, 3).ask(Vote(5, voter(1, life=7).key, 3, 9))).granted


def test_what_the_core_does_not_serve_is_a_mistake_of_the_driver():
    with pytest.raises(TypeError, match="AskVersions"):
        StartedReplica(2, 3).ask(AskVersions())


def test_a_pre_vote_does_not_use_up_the_vote():
    replica = StartedReplica(2, 3)
    assert reply_of(replica.ask(vote(5, 2, pre_vote=True))).granted
    assert reply_of(replica.ask(vote(5, 3, pre_vote=True))).granted
    assert reply_of(replica.ask(vote(5, 3))).granted


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote(2, 2), FENCED),
        (vote(5, -1), INVALID),
        (vote(5, 2, 5), INVALID),
        (vote(5, 2, 6, pre_vote=True), INVALID),
        (vote(5, 2, -1), INVALID),
        (vote(5, 2, 0, -1), INVALID),
        (vote(5, 2, voter=key(3)), NOT_FOR_ME),
        (vote(5, 2, voter=voter(1, life=4).key), NOT_FOR_ME),
    ],
)
def test_a_vote_request_that_makes_no_sense_is_refused(request_, error):
    replica = StartedReplica(2, 3, state=ElectionState(3))
    reply = reply_of(replica.ask(request_))
    assert (reply.error, reply.granted) == (error, False)


def test_a_vote_request_that_names_its_voter_or_nobody_is_answered():
    assert reply_of(StartedReplica(2, 3).ask(vote(5, 2, voter=key(1)))).granted
    assert reply_of(StartedReplica(2, 3).ask(vote(5, 2, voter=None))).granted


def test_a_follower_that_hears_from_its_leader_refuses_pre_votes():
    replica = StartedReplica(2, 3)
    effects = replica.ask(BeginEpoch(4, 2))
    assert reply_of(replica.ask(vote(4, 3, pre_vote=True))).granted
    replica.answer(effects, 2, FetchReply(0, 4, 2))
    assert reply_of(replica.ask(vote(4, 3, pre_vote=True))) == VoteReply(0, 4, 2, False, voter(2).endpoints)
    assert not reply_of(replica.ask(vote(4, 3))).granted


def test_a_leader_refuses_votes_of_its_epoch_and_steps_down_for_a_later_one():
    replica = StartedReplica(2, 3)
    replica.win()
    assert not reply_of(replica.ask(vote(1, 2, pre_vote=True))).granted
    effects = replica.ask(vote(2, 2, 1, 9))
    assert effects[:2] == [Persist(ElectionState(2, -1, None)), LostLeadership(1)]
    assert reply_of(effects).granted
    assert of(Persist, effects)[-1].state.voted == key(2)


def test_an_observer_votes_too_for_it_may_not_know_yet_that_it_is_a_voter():
    replica = StartedReplica(2, 3, observer=True)
    assert replica.raft.role is Role.OBSERVER
    assert reply_of(replica.ask(vote(5, 2))).granted


def test_whoever_knows_the_leader_votes_for_no_other():
    replica = StartedReplica(2, 3, state=ElectionState(4, 9))
    assert replica.raft.role is Role.UNATTACHED
    assert not reply_of(replica.ask(vote(4, 3))).granted
    assert reply_of(replica.ask(vote(4, 3, pre_vote=True))).granted


# -- standing --------------------------------------------------------------------------------------------------------


def test_after_the_election_timeout_a_voter_asks_for_pre_votes_in_its_epoch():
    replica = StartedReplica(2, 3, state=ElectionState(3), epochs=(1, 2))
    effects = replica.pass_time(1_000)
    assert replica.raft.role is Role.PROSPECTIVE
    assert replica.raft.epoch == 3
    ballot = {to: request for to, request in sent(effects).items() if isinstance(request, Vote)}
    assert ballot == {id_: Vote(3, key(1), 2, 2, True, key(id_)) for id_ in (2, 3)}
    assert not of(Persist, effects)


def test_a_majority_of_pre_votes_begins_an_election_and_a_majority_of_votes_wins_it():
    replica = StartedReplica(2, 3)
    effects = replica.answer(replica.pass_time(1_000), 2, VoteReply(0, 0, granted=True))
    assert replica.raft.role is Role.CANDIDATE
    assert effects[0] == Persist(ElectionState(1, -1, key(1)))
    assert sent(effects) == {id_: Vote(1, key(1), 0, 0, False, key(id_)) for id_ in (2, 3)}
    effects = replica.answer(effects, 3, VoteReply(0, 1, granted=True))
    assert replica.raft.role is Role.LEADER
    leads = BecomeLeader(1, 0, replica.voters, (1, 3), 1, replica.voters)
    assert effects[:2] == [Persist(ElectionState(1, 1)), leads]
    begin = {id_: BeginEpoch(1, 1, voter(1).endpoints, key(id_)) for id_ in (2, 3)}
    assert sent(effects) == begin
    assert effects[-1] == LeaderChanged(1, 1, voter(1).endpoints)


def test_pre_votes_refused_send_a_prospective_back_to_its_leader():
    replica = StartedReplica(2, 3)
    replica.ask(BeginEpoch(4, 2))
    effects = replica.pass_time(2_000)
    assert replica.raft.role is Role.PROSPECTIVE
    effects = replica.answer(effects, 2, VoteReply(0, 4, 2))
    assert replica.raft.role is Role.PROSPECTIVE
    replica = StartedReplica(2, 3, 4, 5, state=ElectionState(4, 2))
    effects = replica.pass_time(2_000)
    for id_ in (2, 3, 4):
        replica.answer(effects, id_, VoteReply(0, 4, 2))
    assert replica.raft.role is Role.FOLLOWER
    assert replica.raft.leader_id == 2


def test_pre_votes_refused_leave_a_prospective_without_a_leader_waiting():
    replica = StartedReplica(2, 3)
    effects = replica.pass_time(1_000)
    for id_ in (2, 3):
        replica.answer(effects, id_, VoteReply(0, 0))
    assert replica.raft.role is Role.UNATTACHED
    assert replica.raft.next_deadline_ms() > replica.now


def test_a_candidate_that_is_not_elected_asks_for_pre_votes_again():
    replica = StartedReplica(2, 3)
    effects = replica.answer(replica.pass_time(1_000), 2, VoteReply(0, 0, granted=True))
    for id_ in (2, 3):
        replica.answer(effects, id_, VoteReply(0, 1))
    assert replica.raft.role is Role.CANDIDATE
    replica.pass_time(1_000)
    assert replica.raft.role is Role.PROSPECTIVE
    assert replica.raft.epoch == 1


def test_a_voter_without_pre_votes_makes_a_prospective_a_candidate_at_once():
    replica = StartedReplica(2, 3)
    replica.answer(replica.pass_time(1_000), 2, VoteReply(UNSUPPORTED, -1))
    assert replica.raft.role is Role.CANDIDATE


def test_an_answer_that_knows_a_later_epoch_ends_an_election():
    replica = StartedReplica(2, 3)
    effects = replica.answer(replica.pass_time(1_000), 2, VoteReply(FENCED, 8))
    assert of(Persist, effects)[0].state == ElectionState(8)
    assert replica.raft.role is Role.UNATTACHED
    effects = replica.answer(replica.pass_time(1_000), 2, VoteReply(FENCED, 9, 3))
    assert (replica.raft.role, replica.raft.leader_id, replica.raft.epoch) == (Role.FOLLOWER, 3, 9)
    assert isinstance(sent(effects)[3], Fetch)


def test_a_vote_that_is_not_answered_is_asked_for_again_after_a_pause():
    replica = StartedReplica(2, 3)
    effects = replica.pass_time(1_000)
    assert not sent(replica.answer(effects, 2, None))
    assert 2 in sent(replica.pass_time(20))


def test_a_late_answer_of_a_former_role_counts_for_nothing():
    replica = StartedReplica(2, 3)
    pre_votes = replica.pass_time(1_000)
    replica.answer(pre_votes, 2, VoteReply(0, 0, granted=True))
    replica.answer(pre_votes, 3, VoteReply(0, 1, granted=True))
    assert replica.raft.role is Role.CANDIDATE


def test_a_sole_voter_leads_at_once_with_one_write():
    replica = StartedReplica(state=ElectionState(6, 1), epochs=(6,))
    assert replica.raft.is_leader
    leads = BecomeLeader(7, 1, replica.voters, (1,), 1, replica.voters)
    assert replica.started == [Persist(ElectionState(7, 1)), leads, LeaderChanged(1, 7, voter(1).endpoints)]


# -- the beginning and the end of an epoch ---------------------------------------------------------------------------


def test_the_beginning_of_an_epoch_makes_a_follower_that_fetches():
    replica = StartedReplica(2, 3, epochs=(1,))
    effects = replica.ask(BeginEpoch(4, 2, voter(2).endpoints, key(1)))
    assert effects[0] == Persist(ElectionState(4, 2))
    assert reply_of(effects) == BeginEpochReply(0, 4, 2, voter(2).endpoints)
    assert sent(effects) == {2: Fetch(4, key(1), 1, 1, -1, 500)}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (BeginEpoch(3, 2), FENCED),
        (BeginEpoch(5, -1), INVALID),
        (BeginEpoch(4, 3), INVALID),  # another leader of the epoch
        (BeginEpoch(9, 1), INVALID),  # this node does not lead it
        (BeginEpoch(5, 2, (), key(3)), NOT_FOR_ME),
        (EndEpoch(3, 2), FENCED),
        (EndEpoch(5, -1), INVALID),
        (EndEpoch(4, 3), INVALID),
    ],
)
def test_an_epoch_of_nobody_is_refused(request_, error):
    replica = StartedReplica(2, 3, state=ElectionState(4, 2))
    assert reply_of(replica.ask(request_)).error == error


def test_a_leader_of_a_later_epoch_ends_this_one():
    replica = StartedReplica(2, 3)
    replica.win()
    effects = replica.ask(BeginEpoch(7, 2))
    assert effects[:2] == [Persist(ElectionState(7, 2)), LostLeadership(1)]
    assert replica.raft.role is Role.FOLLOWER


def test_the_vote_of_an_epoch_is_kept_when_its_leader_is_known():
    replica = StartedReplica(2, 3)
    replica.ask(vote(5, 2))
    assert of(Persist, replica.ask(BeginEpoch(5, 3)))[0].state == ElectionState(5, 3, key(2))


@pytest.mark.parametrize(
    ("preferred", "delay"),
    [((1, 2, 3), 0), ((2, 1, 3), 250), ((2, 3, 1), 500), ((2, 3), 1_000), ((), 0)],
)
def test_the_successors_of_a_leader_stand_one_after_the_other(preferred, delay):
    replica = StartedReplica(2, 3)
    effects = replica.ask(BeginEpoch(4, 2))
    replica.answer(effects, 2, FetchReply(0, 4, 2))
    effects = replica.ask(EndEpoch(4, 2, tuple(key(id_) for id_ in preferred)))
    assert reply_of(effects) == EndEpochReply(0, 4, 2, voter(2).endpoints)
    if delay:
        assert replica.raft.role is Role.FOLLOWER
        replica.pass_time(delay - 1)
        assert replica.raft.role is Role.FOLLOWER
        replica.pass_time(1)
    assert replica.raft.role is Role.PROSPECTIVE


def test_a_leader_that_resigns_tells_the_voters_until_they_know():
    replica = StartedReplica(2, 3)
    replica.win()
    replica.fetch(3)
    effects = replica.raft.resign(1, replica.now)
    assert replica.raft.role is Role.RESIGNED
    assert replica.raft.leader_id == -1
    assert of(LostLeadership, effects) == [LostLeadership(1)]
    end = EndEpoch(1, 1, (key(3), key(2)), voter(1).endpoints)
    assert sent(effects) == {2: end, 3: end}
    replica.answer(effects, 2, EndEpochReply(0, 1, 1))
    replica.answer(effects, 3, None)
    assert sent(replica.pass_time(20)) == {3: end}


def test_a_resigned_leader_grants_pre_votes_but_no_vote_of_its_epoch():
    replica = StartedReplica(2, 3)
    replica.win()
    replica.raft.resign(1, replica.now)
    assert reply_of(replica.ask(vote(1, 2, 1, 5, pre_vote=True))).granted
    assert not reply_of(replica.ask(vote(1, 2, 0, 5))).granted


def test_a_resigned_leader_goes_on_in_the_next_epoch():
    replica = StartedReplica(2, 3)
    replica.win()
    replica.raft.resign(1, replica.now)
    effects = replica.pass_time(1_000)
    assert ElectionState(2) in [effect.state for effect in of(Persist, effects)]
    assert replica.raft.role is Role.PROSPECTIVE  # its election timeout ran on
    assert replica.raft.resign(1, replica.now) == []


# -- a start ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "role"),
    [
        (None, Role.UNATTACHED),
        (ElectionState(3), Role.UNATTACHED),
        (ElectionState(3, -1, key(2)), Role.VOTED),
        (ElectionState(3, -1, key(1)), Role.CANDIDATE),
        (ElectionState(3, 2), Role.FOLLOWER),
        (ElectionState(3, 1), Role.RESIGNED),
        (ElectionState(3, 9), Role.UNATTACHED),
    ],
)
def test_a_replica_starts_as_what_it_was(state, role):
    replica = StartedReplica(2, 3, state=state)
    assert replica.raft.role is role
    assert replica.raft.epoch == (3 if state else 0)


def test_the_first_start_writes_the_election_state():
    assert StartedReplica(2, 3).persisted == ElectionState()
    assert not of(Persist, StartedReplica(2, 3, state=ElectionState(3, 2)).started)


def test_a_log_that_is_newer_than_the_election_state_decides_the_epoch():
    replica = StartedReplica(2, 3, state=ElectionState(3, -1, key(2)), epochs=(7,))
    assert replica.persisted == ElectionState(7)


def test_timeouts_of_nothing_are_still_some_time():
    replica = StartedReplica(2, 3, state=ElectionState(3, 2), election_timeout_ms=0, fetch_timeout_ms=0)
    assert replica.raft.next_deadline_ms() > replica.now
    replica.pass_time(20)
    assert replica.raft.epoch == 3


def test_an_observer_never_stands():
    replica = StartedReplica(2, 3, observer=True)
    replica.pass_time(100_000)
    assert replica.raft.role is Role.OBSERVER
    replica.ask(BeginEpoch(4, 2))
    replica.pass_time(100_000)
    assert replica.raft.role is Role.OBSERVER
    assert replica.raft.leader_id == 2


def test_a_leader_that_forgot_its_epoch_does_not_vote_in_it_again():
    replica = StartedReplica(2, 3)
    (to,) = sent(replica.started)
    replica.answer(replica.started, to, FetchReply(FENCED, 9, 1))
    assert (replica.raft.role, replica.raft.epoch, replica.raft.leader_id) == (Role.VOTED, 9, -1)
    assert not reply_of(replica.ask(vote(9, 2, 1, 9))).granted


# -- stopping --------------------------------------------------------------------------------------------------------


def test_a_leader_that_shuts_down_resigns_and_is_done_when_another_leads():
    replica = StartedReplica(2, 3)
    replica.win()
    effects = replica.raft.shutdown(replica.now)
    assert replica.raft.role is Role.RESIGNED
    assert sorted(sent(effects)) == [2, 3]
    assert not replica.raft.has_shut_down
    replica.pass_time(60_000)
    assert replica.raft.role is Role.RESIGNED
    replica.ask(BeginEpoch(2, 3))
    assert replica.raft.has_shut_down


def test_who_shuts_down_begins_no_election():
    replica = StartedReplica(2, 3)
    replica.raft.shutdown(NOW)
    assert not replica.raft.has_shut_down
    assert replica.pass_time(60_000) is not None
    assert replica.raft.role is Role.UNATTACHED
    follower = StartedReplica(2, 3, state=ElectionState(3, 2))
    follower.raft.shutdown(NOW)
    assert follower.raft.has_shut_down
    follower.pass_time(60_000)
    assert follower.raft.role is Role.FOLLOWER
