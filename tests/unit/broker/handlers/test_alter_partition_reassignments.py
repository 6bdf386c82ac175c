"""Alter and list partition reassignments: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.alter_partition_reassignments import alter_partition_reassignments
from kavka.broker.handlers.list_partition_reassignments import list_partition_reassignments
from kavka.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kavka.protocol.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


@pytest.fixture
def tell(ask, loop):
    loop.broker(2)
    loop.topic("a", assignments=[(0, (1,)), (1, (1,))])

    def call(*wanted, version=1, **more):
        topics = [
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
            for name, index, replicas in wanted
        ]
        answer = ask(
            alter_partition_reassignments, AlterPartitionReassignmentsRequest(topics=topics, **more), version, loop
        )
        assert answer.error_code == 0
        return [
            (topic.name, row.partition_index, row.error_code) for topic in answer.responses for row in topic.partitions
        ]

    return call


@pytest.fixture
def listed(ask, loop):
    def call(topics=None):
        answer = ask(list_partition_reassignments, ListPartitionReassignmentsRequest(topics=topics), 0, loop)
        return [
            (topic.name, row.partition_index, row.replicas, row.adding_replicas, row.removing_replicas)
            for topic in answer.topics
            for row in topic.partitions
        ]

    return call


@pytest.mark.parametrize("version", [0, 1])
def test_every_partition_has_its_own_outcome(tell, listed, version):
    assert listed() == []
    answers = tell(("a", 0, [2]), ("a", 1, [9]), ("a", 9, [1]), ("a", 1, None), version=version)
    assert answers == [("a", 0, 0), ("a", 1, 39), ("a", 9, 3), ("a", 1, 85)]
    assert listed() == [("a", 0, [2, 1], [2], [1])]


def test_some_partitions_are_listed(tell, listed):
    tell(("a", 0, [2]))
    assert listed([ListPartitionReassignmentsTopics(name="a", partition_indexes=[1])]) == []
    assert len(listed([ListPartitionReassignmentsTopics(name="a", partition_indexes=[0])])) == 1


def test_a_move_is_ended(tell, listed):
    tell(("a", 0, [2]))
    assert tell(("a", 0, None)) == [("a", 0, 0)]
    assert listed() == []


def test_the_number_of_replicas_stays_if_it_must(tell):
    assert tell(("a", 0, [1, 2]), allow_replication_factor_change=False) == [("a", 0, 38)]
    assert tell(("a", 0, [1, 2])) == [("a", 0, 0)]
