"""A leader's view of its followers: who is in sync, what is committed, who may join, and whom it refuses."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kavka.model.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    NetworkException,
    NotController,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from kavka.model.types import Uuid
from kavka.replication.isr import ANY_EPOCH, BrokerEpoch, IsrOutcome
from kavka.replication.leader import PartitionLeader

TOPIC = Uuid(b"t" * 16)
LAG_MS = 30_000


class Broker(NamedTuple):
    epoch: int
    active: bool = True


BROKERS = {1: Broker(10), 2: Broker(20), 3: Broker(30)}


class Partition:
    """A leadership of node 1, with a log end offset and a clock."""

    def __init__(self, replicas=(1, 2, 3), isr=(1, 2, 3), end=100, min_isr=1):
        self.leader = PartitionLeader(1, TOPIC, 0)
        self.brokers = dict(BROKERS)
        self.now_ms = 1_000_000
        self.end = end
        self.min_isr = min_isr
        self.high_watermark = 0
        self.leader.lead(5, 7, replicas, isr, end, self.now_ms)

    def fetch(self, follower, offset, start=0, epoch=None):
        """A follower fetches; what is asked of the controller then."""
        one = self.leader.follower(follower, 5)
        broker_epoch = self.brokers[follower].epoch if epoch is None else epoch
        self.leader.fetched(one, broker_epoch, offset, start, self.end, self.now_ms, self.brokers)
        change = self.leader.expand(one, self.high_watermark, self.brokers)
        self.advance()
        return change

    def append(self, count=1):
        self.leader.appended(self.end, self.now_ms)
        self.end += count
        self.advance()

    def advance(self):
        found = self.leader.high_watermark(self.end, self.min_isr, self.now_ms, LAG_MS, self.brokers)
        self.high_watermark = max(self.high_watermark, found)
        return found

    def shrink(self):
        return self.leader.shrink(self.end, self.now_ms, LAG_MS, self.brokers)

    def answer(self, change, code=0, **fields):
        known = {"leader": 1, "leader_epoch": 5, "partition_epoch": 8, "isr": change.replicas} | fields
        return self.leader.answered(change, IsrOutcome(TOPIC, 0, code, **known))


class TestCommits:
    def test_what_all_in_sync_replicas_have_is_committed(self):
        partition = Partition()
        assert partition.advance() == -1  # nobody has shown yet what it has
        partition.fetch(2, 100)
        partition.fetch(3, 90)
        assert partition.high_watermark == 90

    def test_a_replica_that_is_out_of_sync_holds_nothing_up(self):
        partition = Partition(isr=(1, 2))
        partition.fetch(2, 100)
        assert partition.high_watermark == 100

    def test_one_that_has_caught_up_and_may_join_is_waited_for(self):
        partition = Partition(isr=(1, 2))
        partition.fetch(2, 100)
        partition.answer(partition.fetch(3, 100), IneligibleReplica.code)
        partition.append()
        partition.fetch(2, 101)
        assert partition.high_watermark == 100
        partition.brokers[3] = Broker(30, active=False)
        assert partition.advance() == 101

    def test_below_the_least_in_sync_replicas_nothing_is_committed(self):
        partition = Partition(isr=(1,), min_isr=2)
        assert partition.advance() == -1
        assert not partition.leader.enough(2)

    def test_no_more_replicas_are_demanded_than_there_are(self):
        partition = Partition(replicas=(1, 2), isr=(1, 2), min_isr=5)
        partition.fetch(2, 100)
        assert partition.high_watermark == 100
        assert partition.leader.enough(5)

    def test_a_replica_that_is_about_to_join_counts_already(self):
        partition = Partition(isr=(1, 2))
        partition.fetch(2, 100)
        assert partition.fetch(3, 100) is not None
        assert partition.leader.maximal_isr == (1, 2, 3)
        partition.append()
        partition.now_ms += 10 * LAG_MS
        partition.fetch(2, 101)
        assert partition.high_watermark == 100

    def test_a_replica_that_is_about_to_leave_still_counts(self):
        partition = Partition()
        partition.fetch(2, 100)
        partition.fetch(3, 100)
        partition.append()
        partition.now_ms += LAG_MS + 1
        partition.fetch(2, 101)
        assert partition.shrink() is not None
        assert partition.advance() == 100

    def test_the_low_watermark_is_the_least_start_of_the_live_replicas(self):
        partition = Partition()
        partition.fetch(2, 100, start=7)
        assert partition.leader.low_watermark(9, partition.brokers) == -1
        partition.fetch(3, 100, start=5)
        assert partition.leader.low_watermark(9, partition.brokers) == 5
        partition.brokers[3] = Broker(30, active=False)
        assert partition.leader.low_watermark(9, partition.brokers) == 7
        del partition.brokers[2]
        assert partition.leader.low_watermark(9, partition.brokers) == 9


class TestShrinking:
    def test_a_follower_that_does_not_fetch_for_too_long_is_to_leave(self):
        partition = Partition()
        partition.fetch(2, 100)
        partition.fetch(3, 100)
        partition.append()
        partition.now_ms += LAG_MS
        partition.fetch(2, 101)
        assert partition.shrink() is None
        partition.now_ms += 1
        change = partition.shrink()
        assert change.isr == (BrokerEpoch(1, 10), BrokerEpoch(2, 20))
        assert (change.leader_epoch, change.partition_epoch) == (5, 7)

    def test_one_that_has_everything_stays_however_quiet_it_is(self):
        partition = Partition()
        partition.fetch(2, 100)
        partition.fetch(3, 100)
        partition.now_ms += 100 * LAG_MS
        assert partition.shrink() is None
        partition.append()
        assert partition.shrink() is None  # it has just had everything
        partition.now_ms += LAG_MS + 1
        assert partition.shrink().replicas == (1,)

    def test_one_that_is_always_a_little_behind_stays(self):
        partition = Partition()
        for _ in range(20):
            partition.fetch(2, partition.end - 1)
            partition.fetch(3, partition.end - 50)
            partition.append()
            partition.now_ms += LAG_MS // 4
        assert partition.shrink().replicas == (1, 2)

    def test_one_that_was_never_heard_of_has_its_time_from_the_start_of_the_epoch(self):
        partition = Partition()
        partition.now_ms += LAG_MS
        assert partition.shrink() is None
        partition.now_ms += 1
        assert partition.shrink().replicas == (1,)

    def test_a_replica_that_is_assigned_no_more_is_to_leave(self):
        partition = Partition(replicas=(1, 2), isr=(1, 2, 3))
        partition.fetch(2, 100)
        assert partition.shrink().replicas == (1, 2)

    def test_only_one_change_is_under_way(self):
        partition = Partition()
        partition.now_ms += LAG_MS + 1
        assert partition.shrink() is not None
        assert partition.shrink() is None


class TestExpanding:
    def test_a_follower_joins_when_it_has_what_is_committed(self):
        partition = Partition(isr=(1, 2))
        partition.fetch(2, 100)
        assert partition.fetch(3, 99) is None
        change = partition.fetch(3, 100)
        assert change.isr == (BrokerEpoch(1, 10), BrokerEpoch(2, 20), BrokerEpoch(3, 30))
        assert not partition.answer(change)
        assert (partition.leader.isr, partition.leader.partition_epoch) == ((1, 2, 3), 8)

    def test_it_must_have_the_start_of_the_epoch_too(self):
        partition = Partition(isr=(1, 2))
        partition.fetch(2, 50)
        assert partition.high_watermark == 50
        assert partition.fetch(3, 99) is None
        assert partition.fetch(3, 100) is not None

    @pytest.mark.parametrize(
        ("broker", "epoch"), [(Broker(30, active=False), 30), (Broker(29), 30), (Broker(31), ANY_EPOCH - 1), (None, 30)]
    )
    def test_a_broker_that_is_not_in_service_or_in_another_life_does_not_join(self, broker, epoch):
        partition = Partition(isr=(1, 2))
        partition.brokers = {key: one for key, one in {**BROKERS, 3: broker}.items() if one is not None}
        try:
            assert partition.fetch(3, 100, epoch=epoch) is None
        except NotLeaderOrFollower:
            assert broker == Broker(31)

    def test_who_was_taken_out_by_the_controller_joins_when_it_fetches_again(self):
        """The broker lives, but the disk of its replica may have failed: what it once fetched says nothing."""
        partition = Partition()
        partition.fetch(2, 100)
        partition.fetch(3, 100)
        partition.leader.lead(5, 8, (1, 2, 3), (1, 2), 100, partition.now_ms)
        gone = partition.leader.follower(3, 5)
        assert partition.leader.expand(gone, partition.high_watermark, partition.brokers) is None
        partition.append()
        partition.fetch(2, 101)
        assert partition.high_watermark == 101
        assert partition.fetch(3, 101) is not None

    def test_a_follower_that_tells_no_broker_epoch_may_join(self):
        partition = Partition(isr=(1, 2))
        assert partition.fetch(3, 100, epoch=ANY_EPOCH).isr[-1] == BrokerEpoch(3, ANY_EPOCH)

    def test_who_has_not_fetched_yet_is_named_without_an_epoch(self):
        partition = Partition(isr=(1, 2))
        assert partition.fetch(3, 100).isr == (BrokerEpoch(1, 10), BrokerEpoch(2, ANY_EPOCH), BrokerEpoch(3, 30))


class TestAnswers:
    @pytest.mark.parametrize("code", [NetworkException.code, NotController.code, -1])
    def test_a_passing_error_is_tried_again(self, code):
        partition = Partition(isr=(1, 2))
        change = partition.fetch(3, 100)
        assert partition.answer(change, code)
        assert partition.leader.pending is change

    def test_what_was_refused_is_not_under_way_any_more(self):
        partition = Partition(isr=(1, 2))
        change = partition.fetch(3, 100)
        assert not partition.answer(change, IneligibleReplica.code)
        assert (partition.leader.maximal_isr, partition.leader.pending) == ((1, 2), None)
        assert partition.fetch(3, 100) is not None

    @pytest.mark.parametrize("code", [FencedLeaderEpoch.code, InvalidUpdateVersion.code])
    def test_when_the_controller_knows_more_the_metadata_decides(self, code):
        partition = Partition(isr=(1, 2))
        change = partition.fetch(3, 100)
        assert not partition.answer(change, code)
        assert partition.leader.maximal_isr == (1, 2, 3)
        assert partition.leader.lead(5, 9, (1, 2, 3), (1, 2), 100, partition.now_ms)
        assert (partition.leader.maximal_isr, partition.leader.pending) == ((1, 2), None)

    def test_an_answer_that_the_metadata_has_overtaken_changes_nothing(self):
        partition = Partition(isr=(1, 2))
        change = partition.fetch(3, 100)
        partition.leader.lead(5, 9, (1, 2, 3), (1,), 100, partition.now_ms)
        assert not partition.answer(change)
        assert (partition.leader.isr, partition.leader.partition_epoch) == ((1,), 9)

    def test_an_answer_of_another_epoch_changes_nothing(self):
        partition = Partition(isr=(1, 2))
        change = partition.fetch(3, 100)
        assert not partition.answer(change, leader_epoch=6)
        assert partition.leader.isr == (1, 2)

    def test_old_metadata_changes_nothing(self):
        partition = Partition()
        assert not partition.leader.lead(5, 6, (1, 2), (1,), 0, partition.now_ms)
        assert partition.leader.isr == (1, 2, 3)


class TestEpochs:
    def test_a_leader_that_goes_on_in_the_next_epoch_knows_its_followers(self):
        partition = Partition()
        partition.fetch(2, 100)
        partition.leader.lead(6, 8, (1, 2, 3), (1, 2), 120, partition.now_ms)
        assert partition.leader.followers[2].log_end_offset == 100
        assert partition.leader.epoch_start == 120

    def test_after_an_epoch_of_somebody_else_it_knows_nothing_of_them(self):
        partition = Partition()
        partition.fetch(2, 100)
        partition.leader.lead(7, 9, (1, 2, 3), (1, 2), 100, partition.now_ms)
        assert partition.leader.followers[2].log_end_offset == -1

    def test_a_stranger_is_refused(self):
        partition = Partition(replicas=(1, 2), isr=(1, 2))
        with pytest.raises(UnknownLeaderEpoch):
            partition.leader.follower(3, 5)
        with pytest.raises(NotLeaderOrFollower):
            partition.leader.follower(3, -1)

    def test_a_fetch_of_an_earlier_life_is_refused(self):
        partition = Partition()
        with pytest.raises(NotLeaderOrFollower):
            partition.fetch(2, 100, epoch=19)
        assert partition.leader.followers[2].log_end_offset == -1


def test_consumers_may_read_from_in_sync_followers_that_have_the_offset():
    partition = Partition(isr=(1, 2))
    partition.fetch(2, 80, start=10)
    partition.fetch(3, 90, start=0)
    assert [one.id for one in partition.leader.readable_at(80)] == [2]
    assert [one.id for one in partition.leader.readable_at(81)] == []
    assert [one.id for one in partition.leader.readable_at(9)] == []
    partition.leader.lead(5, 8, (1, 2, 3), (1, 2, 3), 100, partition.now_ms)
    assert [one.id for one in partition.leader.readable_at(20)] == [3, 2]
