"""Leading: what is served to whom, what is committed when, and when a leader gives up."""

from __future__ import annotations

import pytest
from raft_log import Entry, Snapshot
from raft_replica import StartedReplica, key, of, reply_of, sent
from raft_world import voter

from kavka.raft.core import NEVER, ReplicaProgress, Role
from kavka.raft.effects import BecomeLeader, ElectionState, HighWatermark, LostLeadership, Reply
from kavka.raft.messages import BeginEpoch, BeginEpochReply, Fetch, OffsetAndEpoch, Vote
from kavka.raft.voters import ReplicaKey

FENCED, UNKNOWN_EPOCH, NOT_LEADER, INVALID, NOT_AVAILABLE = 74, 75, 6, 42, 8


def leader(*others: int, **options) -> StartedReplica:
    replica = StartedReplica(*others, **options)
    replica.win()
    return replica


# -- what is committed -----------------------------------------------------------------------------------------------


def test_what_a_majority_has_on_its_disks_is_committed():
    replica = leader(2, 3)  # the log: a leader change, the voters
    assert of(HighWatermark, replica.fetch(2)) == [HighWatermark(2)]
    replica.append("a", "b")
    assert of(HighWatermark, replica.fetch(2, 3)) == [HighWatermark(3)]
    assert of(HighWatermark, replica.fetch(3, 4)) == [HighWatermark(4)]
    assert of(HighWatermark, replica.fetch(2, 4)) == []


def test_nothing_is_committed_before_a_record_of_the_leaders_own_epoch_is():
    replica = leader(2, 3, epochs=(1, 1, 1), state=ElectionState(1), offset=0)
    assert replica.raft.epoch_start_offset == 3
    assert of(HighWatermark, replica.fetch(2, 2)) == []
    assert of(HighWatermark, replica.fetch(2, 3)) == []
    assert reply_of(replica.fetch(2, 3)).high_watermark == -1
    assert of(HighWatermark, replica.fetch(2, 4)) == [HighWatermark(4)]


def test_the_leaders_own_log_counts_as_far_as_it_is_durable():
    replica = leader(2, 3)
    replica.fetch(2)
    replica.log.append([Entry(1, "a")])
    replica.raft.on_appended(replica.now)
    assert of(HighWatermark, replica.fetch(2, 3)) == []
    assert of(HighWatermark, replica.sync()) == [HighWatermark(3)]


def test_followers_alone_can_be_a_majority():
    replica = leader(2, 3)
    replica.log.append([Entry(1, "a")])
    replica.raft.on_appended(replica.now)
    replica.fetch(2, 3)
    assert of(HighWatermark, replica.fetch(3, 3)) == [HighWatermark(3)]


def test_a_sole_voter_commits_what_its_disk_has():
    replica = StartedReplica()
    assert of(HighWatermark, replica.write(replica.started)) == [HighWatermark(2)]
    assert of(HighWatermark, replica.append("a")) == [HighWatermark(3)]


def test_observers_and_strangers_commit_nothing():
    replica = leader(2, 3)
    for fetcher in (key(9), voter(2, life=5).key, ReplicaKey(-1)):
        assert of(HighWatermark, replica.fetch(2, 2, replica=fetcher)) == []


@pytest.mark.parametrize(("others", "needed"), [((2,), 1), ((2, 3), 1), ((2, 3, 4), 2), ((2, 3, 4, 5), 2)])
def test_a_majority_is_more_than_half(others, needed):
    replica = leader(*others)
    committed = [bool(of(HighWatermark, replica.fetch(id_))) for id_ in others]
    assert committed.index(True) == needed - 1


# -- what is served --------------------------------------------------------------------------------------------------


def test_a_fetch_is_told_to_read_up_to_the_end_of_the_log_committed_or_not():
    replica = leader(2, 3)
    reply = reply_of(replica.fetch(2, 1))
    assert (reply.error, reply.epoch, reply.leader_id, reply.read) == (0, 1, 1, True)
    assert reply_of(replica.fetch(2, 2)).read is False


def test_a_fetch_at_the_end_waits_for_records():
    replica = leader(2, 3)
    replica.fetch(2)
    assert replica.fetch(2, max_wait_ms=500, high_watermark=2) == []
    (reply,) = of(Reply, replica.append("a"))
    assert reply.token == ("fetch", 2)
    assert reply.reply.read


def test_a_fetch_waits_for_the_high_watermark_to_move():
    replica = leader(2, 3)
    replica.fetch(2)
    replica.append("a")
    replica.fetch(3)
    assert replica.raft.high_watermark == 3
    assert replica.fetch(2, 3, max_wait_ms=500, high_watermark=3) == []
    replica.append("b")
    assert replica.fetch(3, 4, max_wait_ms=500, high_watermark=4) == [HighWatermark(4)]
    assert reply_of(replica.fetch(2, 4, max_wait_ms=500, high_watermark=3)).high_watermark == 4


def test_a_fetch_that_waits_is_answered_in_the_end():
    replica = leader(2, 3)
    replica.fetch(2)
    assert replica.fetch(2, max_wait_ms=500, high_watermark=2) == []
    assert not of(Reply, replica.pass_time(499))
    reply = reply_of(replica.pass_time(1))
    assert (reply.error, reply.high_watermark, reply.read) == (0, 2, False)


def test_a_fetch_that_waits_is_refused_when_the_leader_leads_no_more():
    replica = leader(2, 3)
    replica.fetch(2)
    replica.fetch(2, max_wait_ms=500, high_watermark=2)
    effects = replica.raft.resign(1, replica.now)
    assert reply_of(effects).error == NOT_LEADER
    replica = leader(2, 3)
    replica.fetch(2)
    replica.fetch(2, max_wait_ms=500, high_watermark=2)
    reply = reply_of(replica.ask(BeginEpoch(7, 3), "begin")[:3])
    assert (reply.error, reply.epoch, reply.leader_id) == (NOT_LEADER, 7, 3)


@pytest.mark.parametrize(
    ("fetch", "error"),
    [
        (Fetch(0, key(2), 0, 0), FENCED),
        (Fetch(2, key(2), 0, 0), UNKNOWN_EPOCH),
        (Fetch(1, key(2), -1, 0), INVALID),
        (Fetch(1, key(2), 0, -1), INVALID),
        (Fetch(1, key(2), 0, 2), INVALID),
        (Fetch(1, key(2), 0, 0, -1, -1), INVALID),
        (Fetch(1, voter(1, life=3).key, 0, 0), -1),  # somebody else has this node's id
    ],
)
def test_a_fetch_that_makes_no_sense_is_refused(fetch, error):
    reply = reply_of(leader(2, 3).ask(fetch))
    assert (reply.error, reply.epoch, reply.leader_id, reply.read) == (error, 1, 1, False)


def test_who_does_not_lead_serves_nothing_but_tells_who_does():
    replica = StartedReplica(2, 3, state=ElectionState(4, 2))
    reply = reply_of(replica.ask(Fetch(4, key(3), 0, 0)))
    assert (reply.error, reply.epoch, reply.leader_id, reply.leader_endpoints) == (NOT_LEADER, 4, 2, voter(2).endpoints)
    assert replica.raft.leader_error(4) == NOT_LEADER
    assert replica.raft.leader_error(3) == FENCED
    assert replica.raft.leader_error(5) == UNKNOWN_EPOCH


def test_who_shuts_down_serves_nothing():
    replica = StartedReplica()
    replica.write(replica.started)
    replica.raft._node.shutting_down = True
    assert replica.raft.leader_error(1) == NOT_AVAILABLE


# -- logs that differ ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (7, 4, (6, 4)),  # a longer log of the same epoch
        (5, 3, (3, 1)),  # an epoch that the leader does not have
        (4, 1, (3, 1)),
        (3, 1, None),
        (2, 1, None),
        (6, 4, None),
    ],
)
def test_a_log_that_differs_is_told_where_to_go_back_to(offset, last_epoch, diverging):
    replica = leader(2, 3, epochs=(1, 1, 1, 4, 4, 4), state=ElectionState(4), offset=0)  # leads epoch 5
    reply = reply_of(replica.ask(Fetch(5, key(2), offset, last_epoch)))
    assert reply.diverging == (OffsetAndEpoch(*diverging) if diverging else None)
    assert reply.read is (diverging is None)


def test_a_log_that_differs_is_not_counted():
    replica = leader(2, 3, epochs=(1,), state=ElectionState(1), offset=0)
    replica.append(*range(20))
    assert of(HighWatermark, replica.ask(Fetch(2, key(2), 15, 1))) == []


def with_snapshot() -> StartedReplica:
    replica = StartedReplica(2, 3, epochs=(1, 1, 2, 2, 3, 3), state=ElectionState(3), offset=0)
    replica.log.cut(Snapshot(OffsetAndEpoch(4, 2), [], []), drop_log=True)
    replica.win()
    return replica  # the log begins at 4, in epoch 3


@pytest.mark.parametrize(
    ("offset", "last_epoch", "snapshot"),
    [(0, 0, True), (3, 2, True), (4, 1, True), (9, 1, True), (4, 2, False), (5, 3, False)],
)
def test_a_log_that_is_too_short_is_given_a_snapshot(offset, last_epoch, snapshot):
    reply = reply_of(with_snapshot().ask(Fetch(4, key(2), offset, last_epoch)))
    assert reply.snapshot == (OffsetAndEpoch(4, 2) if snapshot else None)
    assert reply.diverging is None
    assert reply.log_start_offset == 4


def test_a_log_that_differs_before_the_leaders_log_goes_back_to_the_snapshot():
    replica = with_snapshot()
    assert reply_of(replica.ask(Fetch(4, key(2), 5, 2))).diverging == OffsetAndEpoch(4, 2)


def test_an_empty_log_is_given_the_newest_snapshot_though_the_leader_has_all_records():
    replica = leader(2, 3)
    replica.fetch(2)
    replica.log.cut(Snapshot(OffsetAndEpoch(2, 1), [], []), drop_log=False)
    assert reply_of(replica.fetch(3, 0)).snapshot == OffsetAndEpoch(2, 1)


# -- who is there ----------------------------------------------------------------------------------------------------


def test_a_leader_without_a_majority_resigns_after_one_and_a_half_fetch_timeouts():
    replica = leader(2, 3)
    replica.pass_time(2_000)
    replica.fetch(2)
    replica.pass_time(2_999)
    assert replica.raft.is_leader
    effects = replica.pass_time(1)
    assert of(LostLeadership, effects) == [LostLeadership(1)]
    assert replica.raft.role is Role.RESIGNED


def test_a_replica_that_fetches_a_snapshot_is_there_too():
    replica = leader(2, 3)
    replica.pass_time(2_000)
    replica.raft.on_snapshot_served(key(3), replica.now)
    replica.pass_time(2_999)
    assert replica.raft.is_leader


def test_observers_are_no_majority():
    replica = leader(2, 3)
    replica.pass_time(2_000)
    replica.fetch(9)
    replica.pass_time(1_000)
    assert not replica.raft.is_leader


def test_a_sole_voter_needs_nobody():
    replica = StartedReplica()
    replica.write(replica.started)
    assert replica.raft._node.leading.followers.check_deadline_ms == NEVER
    replica.pass_time(1_000_000)
    assert replica.raft.is_leader


def test_voters_that_do_not_fetch_are_told_again_who_leads():
    replica = leader(2, 3)
    replica.fetch(2)
    replica.pass_time(500)
    replica.fetch(2)
    effects = replica.pass_time(500)
    begin = BeginEpoch(1, 1, voter(1).endpoints, key(3))
    assert 2 not in sent(effects)
    replica.pass_time(999)
    replica.fetch(2)
    assert sent(effects).get(3, begin) == begin


def test_a_leader_is_told_of_a_later_epoch_by_an_answer():
    replica = StartedReplica(2, 3)
    effects = replica.win()
    replica.answer(effects, 2, BeginEpochReply(FENCED, 6, 3, voter(3).endpoints))
    assert (replica.raft.role, replica.raft.leader_id, replica.raft.epoch) == (Role.FOLLOWER, 3, 6)


def test_the_progress_of_all_replicas_is_told():
    replica = leader(2, 3)
    replica.append("a")
    replica.fetch(2, 3)
    replica.fetch(9, 1)
    voters, observers = replica.raft.progress(replica.now)
    assert voters == [
        ReplicaProgress(key(1), 3, replica.now, replica.now),
        ReplicaProgress(key(2), 3, replica.now, replica.now),
        ReplicaProgress(key(3), -1, -1, -1),
    ]
    assert observers == [ReplicaProgress(key(9), 1, replica.now, -1)]
    assert StartedReplica(2, 3).raft.progress(0) == ([], [])


def test_an_observer_that_stays_away_is_forgotten():
    replica = StartedReplica()
    replica.write(replica.started)
    replica.fetch(9)
    replica.pass_time(299_999)
    assert len(replica.raft.progress(replica.now)[1]) == 1
    replica.pass_time(1)
    assert replica.raft.progress(replica.now)[1] == []


def test_a_leader_writes_the_voters_only_when_the_log_does_not_have_them():
    first = StartedReplica(2, 3)
    assert of(BecomeLeader, first.win())[0].write_voters == first.voters
    later = StartedReplica(2, 3, offset=0)
    assert of(BecomeLeader, later.win())[0].write_voters is None
    static = StartedReplica(2, 3, kraft_version=0)
    assert of(BecomeLeader, static.win())[0].write_voters is None


def test_a_pre_vote_of_the_present_epoch_disturbs_no_leader():
    replica = leader(2, 3)
    replica.ask(Vote(1, key(2), 1, 9, True, key(1)))
    assert replica.raft.is_leader
