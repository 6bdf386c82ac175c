"""A partition with followers: what they may read, when their progress commits, and what a follower itself takes."""

from __future__ import annotations

import pytest
from followed import Replicated

from kavka.controller.brokers import Heartbeat
from kavka.metadata.image.configs import ResourceType
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.errors import (
    CorruptMessage,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from kavka.model.transition import Transition
from kavka.records.builder import BatchBuilder
from kavka.replica.fetching import FetchEntry, FetchSet
from kavka.replica.reading import FetchAttempt, FetchLimits
from kavka.replication.isr import BrokerEpoch, IsrOutcome
from kavka.storage.log import UnexpectedOffset


@pytest.fixture
def replicated(held):
    return Replicated(held)


def batch(offset, *values, epoch=0):
    """A batch as a leader would have numbered it."""
    builder = BatchBuilder()
    for value in values or (b"v",):
        builder.append(b"k", value, 1_700_000_000_000)
    data = bytearray(builder.build())
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big", signed=True)
    return bytes(data)


class TestLeading:
    def test_a_record_is_committed_when_all_in_sync_replicas_have_it(self, replicated, held):
        partition = replicated.partition
        info = held.produce(partition, acks=-1)
        assert (info.first_offset, partition.high_watermark) == (0, 0)
        replicated.fetch(2, 1)
        assert partition.high_watermark == 0
        assert replicated.fetch(3, 1).high_watermark == 1
        assert partition.high_watermark == 1

    def test_what_is_not_committed_by_being_written_is_not_appended_the_short_way(self, replicated, held):
        data = memoryview(bytearray(batch(0, epoch=-1)))
        assert replicated.partition.append_plain(data, 0, len(data), held.clock.now_ms()) is None
        alone = replicated.topic("alone", (1,))
        assert alone.append_plain(data, 0, len(data), held.clock.now_ms()).first_offset == 0
        alone.close()
        assert alone.append_plain(data, 0, len(data), held.clock.now_ms()) is None
        assert (replicated.partition.log_end_offset, alone.log_end_offset) == (0, 1)

    def test_followers_read_what_is_not_committed(self, replicated, held):
        held.produce(replicated.partition)
        assert replicated.fetch(2, 0).records.length == replicated.partition.log.size_bytes

    def test_a_second_look_at_the_same_request_is_no_progress(self, replicated, held):
        held.produce(replicated.partition)
        replicated.fetch(2, 1, first=False)
        replicated.fetch(3, 1, first=False)
        assert replicated.partition.high_watermark == 0

    def test_a_follower_whose_log_differs_is_told_where(self, replicated, held):
        held.produce(replicated.partition)
        replicated.lead(leader_epoch=4)
        held.produce(replicated.partition)
        assert replicated.fetch(2, 5, last_epoch=0, epoch=4).diverging == (0, 1)
        assert replicated.fetch(2, 1, last_epoch=3, epoch=4).diverging == (0, 1)
        assert replicated.fetch(2, 1, last_epoch=0, epoch=4).records is not None
        with pytest.raises(OffsetOutOfRange):
            replicated.fetch(2, 1, last_epoch=9, epoch=4)

    def test_what_is_below_the_log_start_is_out_of_range_whatever_the_epochs(self, replicated, held):
        held.produce(replicated.partition)
        held.produce(replicated.partition)
        replicated.fetch(2, 2)
        replicated.fetch(3, 2)
        assert replicated.partition.delete_records(2) == 2
        with pytest.raises(OffsetOutOfRange):
            replicated.fetch(2, 1, last_epoch=0)

    def test_strangers_are_refused_also_where_there_are_no_followers(self, replicated, held):
        alone = replicated.topic("alone", (1,))
        entry = FetchEntry("alone", 0, 0, 0, -1, 0, 100)
        with pytest.raises(UnknownLeaderEpoch):
            alone.fetch_for_follower(entry, BrokerEpoch(2, -1), first=True, max_bytes=100, min_one=True)
        with pytest.raises(UnknownLeaderEpoch):
            replicated.fetch(4, 0)

    def test_a_follower_is_told_of_an_append_but_only_reminded_of_a_commit(self, replicated, held):
        entry = FetchEntry("orders", 0, 0, 0, -1, 0, 100)
        scope = FetchSet([entry], uses_topic_ids=False)
        woken = []
        scope.wake = lambda: woken.append(1)
        scope.dirty.clear()
        entry.watch_end(replicated.partition)
        held.produce(replicated.partition)
        assert (woken, list(scope.dirty)) == ([1], [entry])
        scope.dirty.clear()
        entry.watch_end(replicated.partition)
        replicated.fetch(2, 1)
        replicated.fetch(3, 1)
        assert (woken, list(scope.dirty)) == ([1], [entry])

    def test_enough_in_sync_replicas_are_needed_before_a_write(self, held):
        replicated = Replicated(held, isr=(1,), min_insync_replicas=2)
        with pytest.raises(NotEnoughReplicas):
            held.produce(replicated.partition, acks=-1)
        held.produce(replicated.partition, acks=1)
        assert replicated.partition.high_watermark == 0

    def test_the_last_replica_commits_alone(self, held):
        replicated = Replicated(held, isr=(1,))
        held.produce(replicated.partition, acks=-1)
        assert replicated.partition.high_watermark == 1

    def test_the_deletion_of_a_slow_replica_lets_commits_go_on(self, replicated, held):
        held.produce(replicated.partition)
        replicated.fetch(2, 1)
        replicated.lead(replicas=(1, 2), isr=(1, 2))
        assert replicated.partition.high_watermark == 1
        replicated.lead(replicas=(1,), isr=(1,))
        assert replicated.partition.leadership is None
        held.produce(replicated.partition)
        assert replicated.partition.high_watermark == 2

    def test_less_demanded_of_the_topic_commits_at_once(self, held):
        replicated = Replicated(held, isr=(1,), min_insync_replicas=2)
        held.produce(replicated.partition)
        assert replicated.partition.high_watermark == 0
        held.configure(ResourceType.TOPIC, "orders", min_insync_replicas=1)
        assert replicated.partition.high_watermark == 1


class TestInSyncReplicas:
    def test_a_change_is_proposed_and_its_outcome_taken_over(self, held):
        replicated = Replicated(held, isr=(1, 2))
        partition = replicated.partition
        replicated.fetch(3, 0)
        change = held.replicas.proposals[partition]
        assert change.replicas == (1, 2, 3)
        assert partition.wants(change)
        outcome = IsrOutcome(change.topic_id, 0, 0, 1, partition.leader_epoch, change.partition_epoch + 1, (1, 2, 3))
        assert not partition.isr_answered(change, outcome)
        assert (partition.isr, partition.partition_epoch) == ((1, 2, 3), change.partition_epoch + 1)
        assert not partition.wants(change)

    def test_metadata_that_the_answer_has_overtaken_is_passed_over(self, held):
        replicated = Replicated(held, isr=(1, 2))
        partition = replicated.partition
        replicated.fetch(3, 0)
        change = held.replicas.proposals[partition]
        outcome = IsrOutcome(change.topic_id, 0, 0, 1, partition.leader_epoch, change.partition_epoch + 5, (1, 2, 3))
        partition.isr_answered(change, outcome)
        replicated.lead(isr=(1,))
        assert partition.isr == (1, 2, 3)

    def test_a_follower_that_is_unfenced_later_joins_without_another_fetch(self, held):
        replicated = Replicated(held, isr=(1, 2))
        beat = Heartbeat(3, replicated.epochs[3], 0, want_fence=True)
        held.write(held.machine.heartbeat(beat, 0))
        replicated.fetch(3, 0)
        assert replicated.partition not in held.replicas.proposals
        held.write(held.machine.heartbeat(Heartbeat(3, replicated.epochs[3], held.machine.image.offset), 0))
        assert held.replicas.proposals[replicated.partition].replicas == (1, 2, 3)

    def test_one_put_out_while_its_fetch_waits_is_proposed_again_with_its_next_fetch(self, replicated, held):
        scope = FetchSet([FetchEntry("orders", 0, 0, 0, -1, 0, 1 << 20)], uses_topic_ids=False)
        scope.id = 1  # a session: nobody sends the partition again while there is nothing new of it
        limits = FetchLimits(1, 1 << 20, committed=False, follower=BrokerEpoch(3, replicated.epochs[3]))
        waiting = FetchAttempt(held.replicas, scope, limits, incremental=True)
        assert not waiting.look()
        assert not scope.dirty
        replicated.lead(isr=(1, 2))
        assert not waiting.look()
        assert replicated.partition not in held.replicas.proposals
        FetchAttempt(held.replicas, scope, limits, incremental=True).look()
        assert held.replicas.proposals[replicated.partition].replicas == (1, 2, 3)
        assert not scope.dirty

    def test_one_that_falls_behind_is_proposed_to_leave(self, replicated, held):
        held.produce(replicated.partition)
        replicated.fetch(2, 1)
        held.clock.advance(30_001)
        replicated.fetch(2, 1)
        replicated.partition.shrink_isr()
        assert held.replicas.proposals[replicated.partition].replicas == (1, 2)

    def test_nothing_is_wanted_any_more_by_who_does_not_lead(self, held):
        replicated = Replicated(held, isr=(1, 2))
        replicated.fetch(3, 0)
        change = held.replicas.proposals[replicated.partition]
        replicated.lead(leader=2, leader_epoch=1)
        assert not replicated.partition.wants(change)
        assert not replicated.partition.isr_answered(change, IsrOutcome(change.topic_id, 0, 0))
        replicated.partition.shrink_isr()


class TestLeadership:
    def test_a_leadership_without_a_break_has_one_beginning(self, replicated):
        partition = replicated.partition
        assert partition.led_since == 0
        replicated.lead(leader_epoch=1)
        assert partition.led_since == 0
        replicated.lead(leader_epoch=3)  # the epoch between was another's
        assert partition.led_since == 3
        replicated.lead(leader=2, leader_epoch=4)
        replicated.lead(leader=1, leader_epoch=5)
        assert partition.led_since == 5

    def test_whoever_leads_no_more_gives_followers_nothing(self, replicated):
        replicated.lead(leader=2, leader_epoch=1)
        with pytest.raises(NotLeaderOrFollower):
            replicated.fetch(3, 0, epoch=1)

    def test_consumers_that_know_how_may_read_from_a_follower(self, replicated, held):
        held.produce(replicated.partition)
        replicated.fetch(2, 1)
        replicated.fetch(3, 1)
        replicated.lead(leader=2, leader_epoch=1)
        entry = FetchEntry("orders", 0, -1, 0, -1, 0, 100)
        limits = {"committed": False, "max_bytes": 100, "min_one": True}
        with pytest.raises(NotLeaderOrFollower):
            replicated.partition.fetch(entry, **limits)
        assert replicated.partition.fetch(entry, leader_only=False, **limits).high_watermark == 1


class TestFollowing:
    @pytest.fixture
    def follower(self, replicated):
        replicated.lead(leader=2, leader_epoch=1)
        return replicated.partition

    def test_what_a_leader_numbered_is_kept_as_it_is(self, follower):
        assert follower.append_as_follower(batch(0, b"a", b"b") + batch(2, epoch=1), 1, 0)
        assert follower.log_end_offset == 3
        assert follower.log.epochs.entries[-1] == (1, 2)
        follower.follow_leader(9, 0)
        assert follower.high_watermark == 3

    def test_a_batch_cut_short_at_the_end_is_left_for_the_next_time(self, follower):
        assert follower.append_as_follower(batch(0) + batch(1)[:40], 1, 0)
        assert follower.log_end_offset == 1
        assert not follower.append_as_follower(batch(1)[:40], 1, 0)

    def test_damaged_bytes_are_not_taken(self, follower):
        damaged = bytearray(batch(0))
        damaged[-1] ^= 1
        with pytest.raises(CorruptMessage):
            follower.append_as_follower(bytes(damaged), 1, 0)
        assert follower.log_end_offset == 0

    def test_what_a_later_leader_wrote_is_left(self, follower):
        assert follower.append_as_follower(batch(0, epoch=1) + batch(1, epoch=2), 1, 0)
        assert follower.log_end_offset == 1

    def test_a_log_that_starts_in_the_middle_of_a_batch_begins_with_all_of_it(self, follower):
        follower.start_over_at(5, 0)
        assert follower.append_as_follower(batch(3, b"a", b"b", b"c"), 1, 0)
        assert (follower.log_start_offset, follower.log_end_offset) == (3, 6)
        follower.follow_leader(6, 5)
        assert follower.log_start_offset == 5

    def test_what_does_not_continue_the_log_is_refused(self, follower):
        follower.append_as_follower(batch(0), 1, 0)
        with pytest.raises(UnexpectedOffset):
            follower.append_as_follower(batch(0), 1, 0)

    def test_the_log_start_follows_the_leaders_as_far_as_records_are_committed(self, follower):
        for offset in range(4):
            follower.append_as_follower(batch(offset), 1, 0)
        follower.follow_leader(2, 3)
        assert (follower.high_watermark, follower.log_start_offset) == (2, 2)
        follower.follow_leader(4, 3)
        assert (follower.high_watermark, follower.log_start_offset) == (4, 3)

    def test_cutting_takes_the_high_watermark_back(self, follower, caplog):
        for offset in range(4):
            follower.append_as_follower(batch(offset), 1, 0)
        follower.follow_leader(4, 0)
        follower.truncate(2, 0)
        assert (follower.log_end_offset, follower.high_watermark) == (2, 2)
        assert "below its high watermark" in caplog.text

    def test_a_failed_log_takes_nothing(self, follower):
        follower.log.failed = "the disk said no"
        with pytest.raises(KafkaStorageError):
            follower.append_as_follower(batch(0), 1, 0)


def test_a_consumer_is_sent_to_an_in_sync_follower_in_its_rack(replicated):
    replicated.fetch(2, 0)
    replicated.fetch(3, 0)
    assert replicated.partition.preferred_replica("rack-3", 0) == 3
    assert replicated.partition.preferred_replica("rack-9", 0) is None
    replicated.lead(isr=(1, 2))
    assert replicated.partition.preferred_replica("rack-3", 0) is None


def test_a_partition_that_moves_away_is_deleted(replicated, held):
    held.produce(replicated.partition)
    topic = held.machine.image.topics.by_name["orders"]
    record = PartitionChangeRecord(partition_id=0, topic_id=topic.id, replicas=[2], isr=[2], leader=2)
    held.write(Transition(None, (record,)))
    assert held.replicas.held("orders", 0) is None
    with pytest.raises(NotLeaderOrFollower):
        held.replicas.find("orders", 0)
    assert len(held.replicas.removals.deleted) == 1


def test_a_directory_with_a_failed_log_goes_offline_where_another_node_can_stand_in(replicated, held, disk):
    other = replicated.topic("other", (1, 2))
    disk.faults = {"write": "other"}
    with pytest.raises(KafkaStorageError):
        held.produce(other)
    assert not held.replicas.dirs[0].online
    for name in ("orders", "other"):
        assert held.replicas.held(name, 0) is None
        with pytest.raises(KafkaStorageError):
            held.replicas.find(name, 0)
    assert not replicated.partition.leads
    topic = held.machine.image.topics.by_name["orders"]
    with pytest.raises(KafkaStorageError):
        held.replicas.update(topic, 0)
    held.delete("orders")
    with pytest.raises(UnknownTopicOrPartition):
        held.replicas.find("orders", 0)


def test_the_only_directory_of_the_only_node_stays_in_use(held, disk):
    partition, other = held.topic("orders"), held.topic("other")
    disk.faults = {"sync": "orders"}
    held.produce(partition)
    with pytest.raises(KafkaStorageError):
        partition.log.sync()
    assert partition.failed is not None
    assert held.produce(other).first_offset == 0
