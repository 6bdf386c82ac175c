"""Moving partitions: KIP-455's rules, one test each."""

from __future__ import annotations

import pytest

from kavka.controller.partitions import Assignment
from kavka.controller.reassignment import Reassign
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.model.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)

TOPIC_A = ConfigResource(ResourceType.TOPIC, "a")


@pytest.fixture
def five(ledgers):
    """Five brokers, and a partition on the first three."""
    ledger = ledgers()
    for id_ in (1, 2, 3, 4, 5):
        ledger.broker(id_)
    ledger.topic("a", assignments=[(0, (1, 2, 3))])
    return ledger


def move(ledger, *replicas, name="a", index=0, **more):
    return ledger.alter_reassignments([Reassign(name, index, replicas)], **more)[0]


def cancel(ledger, name="a"):
    return ledger.alter_reassignments([Reassign(name, 0, None)])[0]


def shape(ledger):
    partition = ledger.partition("a")
    return partition.replicas, partition.adding, partition.removing


def test_new_replicas_come_first_and_the_old_stay_until_those_are_in_sync(five):
    assert move(five, 4, 5, 3) is None
    assert shape(five) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert five.partition("a").leader == 1
    five.in_sync("a", 1, 2, 3, 4)
    assert shape(five) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    five.in_sync("a", 1, 2, 3, 4, 5)
    assert shape(five) == ((4, 5, 3), (), ())
    assert five.partition("a").isr == (3, 4, 5)


def test_new_replicas_get_the_directory_of_a_broker_that_has_only_one(five):
    move(five, 4, 2, 3)
    directories = five.image.cluster.brokers[4].directories
    assert five.partition("a").directory(4) == directories[0]
    assert len(five.partition("a").directories) == 4


def test_another_order_is_another_preferred_leader_and_done_at_once(five):
    assert move(five, 3, 2, 1) is None
    assert shape(five) == ((3, 2, 1), (), ())
    assert five.partition("a").leader == 1
    five.elect_leaders(0, [("a", [0])])
    assert five.partition("a").leader == 3


def test_a_move_to_where_it_is_writes_nothing(five):
    before = len(five.log)
    assert move(five, 1, 2, 3) is None
    assert len(five.log) == before


def test_fewer_replicas_are_done_at_once_when_all_that_stay_are_in_sync(five):
    move(five, 1, 2)
    assert shape(five) == ((1, 2), (), ())
    assert five.partition("a").leader_epoch == 1


def test_fewer_replicas_wait_until_all_that_stay_are_in_sync(five):
    five.in_sync("a", 1, 3)
    move(five, 1, 2)
    assert shape(five) == ((1, 2, 3), (), (3,))
    five.in_sync("a", 1, 3, 2)
    assert shape(five) == ((1, 2), (), ())


def test_a_move_ended_goes_back_to_where_it_came_from(five):
    move(five, 4, 5, 3)
    five.in_sync("a", 1, 2, 3, 4)
    assert cancel(five) is None
    partition = five.partition("a")
    assert sorted(partition.replicas) == [1, 2, 3]
    assert (partition.adding, partition.removing, partition.isr, partition.leader) == ((), (), (1, 2, 3), 1)
    assert type(cancel(five)) is NoReassignmentInProgress


def test_a_move_is_not_ended_where_only_added_replicas_are_in_sync_unless_records_may_be_lost(five):
    move(five, 4, 5, 3)
    five.in_sync("a", 1, 4)
    five.beat(1, want_fence=True)
    assert (five.partition("a").leader, five.partition("a").isr) == (4, (4,))
    assert type(cancel(five)) is InvalidReplicaAssignment
    five.incremental_alter_configs({TOPIC_A: {"unclean.leader.election.enable": (0, "true")}})
    assert cancel(five) is None
    assert shape(five)[1:] == ((), ())
    partition = five.partition("a")
    assert partition.leader in partition.isr
    assert 4 not in partition.replicas


def test_a_second_move_replaces_the_first(five):
    move(five, 4, 2, 3)
    move(five, 5, 2, 3)
    assert shape(five) == ((5, 2, 3, 1, 4), (5,), (1, 4))
    five.in_sync("a", 1, 2, 3, 5)
    assert shape(five) == ((5, 2, 3), (), ())


def test_a_move_asked_for_again_goes_on_as_it_was(five):
    move(five, 4, 2, 3)
    before = len(five.log)
    assert move(five, 4, 2, 3) is None
    assert len(five.log) == before


def test_a_move_back_is_done_at_once(five):
    move(five, 4, 2, 3)
    move(five, 1, 2, 3)
    assert shape(five) == ((1, 2, 3), (), ())


def test_a_move_that_keeps_all_old_replicas_as_well_removes_none(five):
    move(five, 4, 2, 3)
    move(five, 1, 2, 3, 4)
    assert shape(five) == ((1, 2, 3, 4), (4,), ())
    five.in_sync("a", 1, 2, 3, 4)
    assert shape(five) == ((1, 2, 3, 4), (), ())


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((), InvalidReplicaAssignment),
        ((1, 1, 2), InvalidReplicaAssignment),
        ((1, 2, 9), InvalidReplicaAssignment),
        ((-1, 1, 2), InvalidReplicaAssignment),
    ],
)
def test_replicas_are_distinct_registered_brokers(five, replicas, error):
    assert type(move(five, *replicas)) is error


def test_what_is_not_there_is_not_moved(five):
    assert type(move(five, 1, name="b")) is UnknownTopicOrPartition
    assert type(move(five, 1, index=1)) is UnknownTopicOrPartition
    assert type(cancel(five, "b")) is UnknownTopicOrPartition
    assert type(cancel(five)) is NoReassignmentInProgress


def test_the_number_of_replicas_changes_only_if_it_may(five):
    refused = move(five, 1, 2, allow_replication_change=False)
    assert type(refused) is InvalidReplicationFactor
    assert str(refused) == "The replication factor is changed from 3 to 2"  # what the tools of Kafka show
    assert type(move(five, 1, 2, 3, 4, allow_replication_change=False)) is InvalidReplicationFactor
    assert move(five, 1, 2, 4, allow_replication_change=False) is None
    # under way, what counts is where it leads to
    assert move(five, 1, 2, 5, allow_replication_change=False) is None
    assert type(move(five, 1, 2, allow_replication_change=False)) is InvalidReplicationFactor


def test_the_moves_under_way_are_listed(five):
    five.topic("b", assignments=[(0, (1, 2)), (1, (1, 2))])
    assert five.list_reassignments(None) == []
    move(five, 4, 2, 3)
    move(five, 4, 2, name="b", index=1)
    of_a, other = five.partition("a"), five.partition("b", 1)
    assert five.list_reassignments(None) == [("a", [(0, of_a)]), ("b", [(1, other)])]
    assert five.list_reassignments([("b", [0, 1, 9]), ("c", [0])]) == [("b", [(1, other)])]
    assert five.list_reassignments([]) == []


def test_a_fenced_replica_that_is_removed_does_not_hold_up_a_move(five):
    five.beat(3, want_fence=True)
    move(five, 1, 2, 4)
    five.in_sync("a", 1, 2, 4)
    assert shape(five) == ((1, 2, 4), (), ())


def test_a_move_is_completed_by_whatever_changes_the_isr(five):
    """The broker that leaves may be the last one that a shrinking partition waited for."""
    move(five, 4, 2, 3)
    five.in_sync("a", 1, 2, 3, 4)
    assert shape(five) == ((4, 2, 3), (), ())


@pytest.mark.parametrize(
    ("assignment", "isr", "finished"),
    [
        (Assignment((1, 2)), (1, 2), None),
        (Assignment((3, 1), (3,), (1,)), (1,), None),
        (Assignment((3, 1), (3,), (1,)), (1, 3), (Assignment((3,)), (3,))),
        (Assignment((1, 2, 3), (3,)), (1, 2), None),
        (Assignment((1, 2, 3), (3,)), (1, 3), (Assignment((1, 2, 3)), (1, 3))),
        (Assignment((1, 2), (), (1, 2)), (1, 2), None),
        (Assignment((2, 3, 4, 5, 0, 1), (5,), (0, 1)), (0, 1, 5), None),
    ],
)
def test_when_a_move_is_finished(assignment, isr, finished):
    assert assignment.finished(isr) == finished
