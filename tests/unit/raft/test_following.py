"""Following: what a replica does with the leader's answers, and with none."""

from __future__ import annotations

import pytest
from raft_log import Entry, Snapshot
from raft_replica import StartedReplica, key, of, sent, voters
from raft_world import voter

from kavka.raft.core import RaftError, Role
from kavka.raft.effects import (
    Append,
    ElectionState,
    FetchSnapshotFrom,
    HighWatermark,
    Persist,
    Send,
    StopSnapshot,
    Truncate,
)
from kavka.raft.messages import BeginEpoch, Fetch, FetchReply, OffsetAndEpoch, SnapshotReply, Vote
from kavka.raft.voters import ControlChange

FENCED, UNKNOWN_EPOCH, NOT_LEADER, INVALID, NOT_FOUND = 74, 75, 6, 42, 98
SNAPSHOT = OffsetAndEpoch(10, 3)


def follower(*others: int, **options) -> StartedReplica:
    """A follower of node 2 in epoch 4, whose fetch is under way."""
    return StartedReplica(*(others or (2, 3)), state=ElectionState(4, 2), **options)


def reply(**fields) -> FetchReply:
    return FetchReply(0, 4, 2, **fields)


def test_records_are_appended_and_forced_before_the_next_fetch():
    replica = follower()
    effects = replica.answer(replica.started, 2, reply(records=[Entry(4, "a")], high_watermark=1))
    assert effects == [Append([Entry(4, "a")], 4)]
    replica.log.append([Entry(4, "a")])
    assert replica.raft.on_appended(replica.now) == [HighWatermark(1)]
    assert sent(replica.sync()) == {2: Fetch(4, key(1), 1, 4, 1, 500)}


def test_a_fetch_waits_for_less_than_the_fetch_timeout():
    assert sent(follower(fetch_timeout_ms=300).started)[2].max_wait_ms == 150


def test_who_never_votes_does_not_wait_for_its_disk():
    replica = follower(observer=True)
    replica.raft._node.can_become_voter = False
    replica.answer(replica.started, 2, reply(records=[Entry(4, "a")]))
    replica.log.append([Entry(4, "a")])
    assert 2 in sent(replica.raft.on_appended(replica.now))


def test_records_that_are_not_sound_are_fetched_again_after_a_pause():
    replica = follower(2)
    replica.answer(replica.started, 2, reply(records=["damaged"]))
    assert 2 not in sent(replica.raft.on_appended(replica.now))
    assert 2 in sent(replica.pass_time(20))


def test_nothing_is_committed_beyond_the_end_of_the_log():
    replica = follower()
    replica.answer(replica.started, 2, reply(records=[Entry(4, "a")], high_watermark=100))
    replica.log.append([Entry(4, "a")])
    assert replica.raft.on_appended(replica.now) == [HighWatermark(1)]


def test_an_answer_without_records_may_tell_what_is_committed():
    replica = follower(epochs=(1, 1))
    effects = replica.answer(replica.started, 2, reply(high_watermark=2))
    assert effects[0] == HighWatermark(2)
    assert sent(effects) == {2: Fetch(4, key(1), 2, 1, 2, 500)}


def test_the_high_watermark_never_goes_back():
    replica = follower(epochs=(1, 1))
    effects = replica.answer(replica.started, 2, reply(high_watermark=2))
    assert of(HighWatermark, replica.answer(effects, 2, reply(high_watermark=1))) == []
    assert replica.raft.high_watermark == 2


@pytest.mark.parametrize(("diverging", "offset"), [((3, 2), 3), ((2, 1), 2), ((9, 2), 4), ((1, 0), 1), ((3, 1), 2)])
def test_a_log_that_differs_is_truncated(diverging, offset):
    replica = follower(epochs=(1, 1, 2, 2, 3))
    effects = replica.answer(replica.started, 2, reply(diverging=OffsetAndEpoch(*diverging)))
    assert effects == [Truncate(offset)]
    replica.log.truncate(offset)
    assert sent(replica.raft.on_truncated(replica.now))[2].offset == offset


def test_what_is_committed_is_never_truncated():
    replica = follower(epochs=(1, 1, 2))
    effects = replica.answer(replica.started, 2, reply(high_watermark=3))
    with pytest.raises(RaftError, match="3 is committed"):
        replica.answer(effects, 2, reply(diverging=OffsetAndEpoch(2, 1)))


def test_truncation_takes_voters_back():
    replica = follower(epochs=(1, 1))
    replica.answer(replica.started, 2, reply(records=["voters"]))
    replica.log.append([Entry(3, "voters")])
    replica.raft.on_appended(replica.now, [ControlChange(2, voters(1, 2, 3, 4))])
    assert replica.raft.voters == voters(1, 2, 3, 4)
    effects = replica.sync()
    replica.answer(effects, 2, reply(diverging=OffsetAndEpoch(2, 1)))
    replica.log.truncate(2)
    replica.raft.on_truncated(replica.now)
    assert replica.raft.voters == voters(1, 2, 3)


# -- the leader is lost, or another ----------------------------------------------------------------------------------


def test_a_follower_that_hears_nothing_stands_after_the_fetch_timeout():
    replica = follower()
    replica.pass_time(1_500)
    replica.answer(replica.started, 2, reply())
    replica.pass_time(1_999)
    assert replica.raft.role is Role.FOLLOWER
    replica.pass_time(1)
    assert replica.raft.role is Role.PROSPECTIVE


def test_a_follower_whose_leader_does_not_answer_asks_another():
    replica = follower()
    effects = replica.answer(replica.started, 2, None)
    assert sent(effects) == {3: Fetch(4, key(1), 0, 0, -1, 500)}
    effects = replica.answer(effects, 3, FetchReply(NOT_LEADER, 4, 2))
    assert sent(effects) == {}
    assert 2 in sent(replica.pass_time(20))


def test_a_follower_learns_of_another_leader_from_whom_it_asks():
    replica = follower()
    effects = replica.answer(replica.started, 2, None)
    effects = replica.answer(effects, 3, FetchReply(FENCED, 5, 3, leader_endpoints=voter(3).endpoints))
    assert of(Persist, effects)[0].state == ElectionState(5, 3)
    assert sent(effects)[3].epoch == 5


def test_a_later_epoch_without_a_leader_detaches_a_follower():
    replica = follower()
    effects = replica.answer(replica.started, 2, FetchReply(FENCED, 5))
    assert of(Persist, effects)[0].state == ElectionState(5)
    assert replica.raft.role is Role.UNATTACHED


@pytest.mark.parametrize("error", [UNKNOWN_EPOCH, INVALID, -1, 8])
def test_an_error_is_followed_by_a_pause(error):
    replica = follower(3, 2)
    effects = replica.answer(replica.started, 2, FetchReply(error, 4, 2))
    assert 2 not in sent(effects)
    assert replica.raft.role is Role.FOLLOWER


def test_an_answer_of_an_earlier_epoch_changes_nothing():
    replica = follower()
    replica.answer(replica.started, 2, FetchReply(0, 3, 3, records=["x"]))
    assert (replica.raft.epoch, replica.raft.leader_id, replica.raft.role) == (4, 2, Role.FOLLOWER)


def test_a_leader_that_does_not_answer_in_time_is_not_waited_for():
    replica = StartedReplica(2, 3, state=ElectionState(4, 2), request_timeout_ms=500)
    assert 3 in sent(replica.pass_time(500))
    assert replica.answer(replica.started, 2, reply(high_watermark=5)) == []


def test_with_patience_set_a_leader_whose_process_is_gone_is_replaced_early():
    replica = follower(lost_leader_ms=100)
    effects = replica.answer(replica.started, 2, reply())
    replica.answer(effects, 2, None)
    assert replica.ask(Vote(4, key(3), 3, 0, True))[0].reply.granted
    replica.pass_time(99)
    assert replica.raft.role is Role.FOLLOWER
    replica.pass_time(1)
    assert replica.raft.role is Role.PROSPECTIVE


def test_voters_that_lose_their_leader_together_stand_one_after_the_other():
    waited = {}
    for me in (1, 3, 4, 5):
        replica = StartedReplica(*({1, 2, 3, 4, 5} - {me}), me=me, state=ElectionState(4, 2), lost_leader_ms=200)
        effects = replica.answer(replica.started, 2, reply())
        began = replica.now
        while replica.raft.role is Role.FOLLOWER:
            for effect in of(Send, effects):  # trying again must not bring their turns together
                replica.raft.on_response(effect.request_id, None, replica.now)
            effects = replica.pass_time(1)
        waited[me] = replica.now - began
    assert waited == {1: 200, 3: 250, 4: 300, 5: 350}


def test_an_answer_that_asks_for_nothing_possible_is_followed_by_a_pause():
    replica = follower(epochs=(1, 1))
    assert 2 not in sent(replica.answer(replica.started, 2, reply(diverging=OffsetAndEpoch(2, 1))))
    replica = follower()
    replica.answer(replica.started, 2, reply(snapshot=SNAPSHOT))
    effects = replica.raft.on_snapshot_reply(SnapshotReply(INVALID, 4, 2), replica.now)
    assert effects[0] == StopSnapshot(SNAPSHOT)
    assert 2 not in sent(effects)


def test_who_knows_no_other_node_waits_to_be_told():
    replica = StartedReplica(observer=True)
    assert sent(replica.started) == {}


# -- finding the leader ----------------------------------------------------------------------------------------------


def test_an_observer_finds_the_leader_and_takes_its_records_with_the_same_fetch():
    replica = StartedReplica(2, 3, observer=True)
    assert len(of(Send, replica.started)) == 1
    (to,) = sent(replica.started)
    effects = replica.answer(replica.started, to, FetchReply(NOT_LEADER, 4, 3, leader_endpoints=voter(3).endpoints))
    assert sent(effects) == {3: Fetch(4, key(1), 0, 0, -1, 500)}
    replica = StartedReplica(2, 3, observer=True)
    (to,) = sent(replica.started)
    effects = replica.answer(replica.started, to, FetchReply(FENCED, 4))
    effects = replica.answer(effects, next(iter(sent(effects))), FetchReply(0, 4, 2, records=["r"]))
    assert of(Append, effects) == [Append(["r"], 4)]


def test_a_leader_nobody_knows_the_way_to_is_not_followed():
    replica = StartedReplica(2, 3, observer=True)
    (to,) = sent(replica.started)
    replica.answer(replica.started, to, FetchReply(FENCED, 4, 9))
    assert (replica.raft.role, replica.raft.leader_id) == (Role.OBSERVER, 9)
    assert 9 not in sent(replica.pass_time(100))
    replica.ask(BeginEpoch(4, 9, voter(9).endpoints))
    assert replica.raft.leader_endpoints == voter(9).endpoints


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_fetched_installed_and_followed_by_a_fetch():
    replica = follower(epochs=(1,))
    effects = replica.answer(replica.started, 2, reply(snapshot=SNAPSHOT))
    assert effects == [FetchSnapshotFrom(2, voter(2).endpoints, 4, SNAPSHOT)]
    replica.pass_time(1_900)
    assert replica.raft.on_snapshot_reply(SnapshotReply(0, 4, 2), replica.now) == []
    replica.pass_time(1_900)
    assert replica.raft.role is Role.FOLLOWER
    replica.log.install(Snapshot(SNAPSHOT, [], []))
    effects = replica.raft.on_snapshot_installed(SNAPSHOT, replica.now, [ControlChange(9, voters(1, 2), 1)])
    assert effects[0] == HighWatermark(10)
    assert sent(effects) == {2: Fetch(4, key(1), 10, 3, 10, 500)}
    assert replica.raft.voters == voters(1, 2)


def test_a_snapshot_that_fails_is_asked_for_again():
    replica = follower(2)
    replica.answer(replica.started, 2, reply(snapshot=SNAPSHOT))
    assert replica.raft.on_snapshot_failed(SNAPSHOT, replica.now) == []
    assert 2 in sent(replica.pass_time(20))


def test_a_snapshot_that_the_leader_dropped_is_given_up():
    replica = follower()
    replica.answer(replica.started, 2, reply(snapshot=SNAPSHOT))
    effects = replica.raft.on_snapshot_reply(SnapshotReply(NOT_FOUND, 4, 2), replica.now)
    assert effects[0] == StopSnapshot(SNAPSHOT)
    assert 2 in sent(effects)


def test_a_snapshot_of_a_former_leader_is_given_up():
    replica = follower()
    replica.answer(replica.started, 2, reply(snapshot=SNAPSHOT))
    effects = replica.raft.on_snapshot_reply(SnapshotReply(FENCED, 5, 3), replica.now)
    assert of(StopSnapshot, effects) == [StopSnapshot(SNAPSHOT)]
    assert 3 in sent(effects)
    assert replica.raft.on_snapshot_reply(SnapshotReply(0, 4, 2), replica.now) == []


def test_a_follower_that_fetches_a_snapshot_stands_when_nothing_comes():
    replica = follower()
    replica.answer(replica.started, 2, reply(snapshot=SNAPSHOT))
    effects = replica.pass_time(2_000)
    assert of(StopSnapshot, effects) == [StopSnapshot(SNAPSHOT)]
    assert replica.raft.role is Role.PROSPECTIVE


def test_what_is_committed_is_never_replaced_by_an_older_snapshot():
    replica = follower(epochs=(1,) * 12)
    effects = replica.answer(replica.started, 2, reply(high_watermark=11))
    with pytest.raises(RaftError, match="11 is committed"):
        replica.answer(effects, 2, reply(snapshot=SNAPSHOT))
