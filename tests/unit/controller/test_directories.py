"""In which directories replicas are."""

from __future__ import annotations

import pytest

from kavka.controller.directories import InDirectory
from kavka.metadata.image.cluster import LOST, UNASSIGNED
from kavka.model.errors import (
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kavka.model.types import Uuid


@pytest.fixture
def two(ledgers):
    """Two brokers with two directories each, and a partition on both."""
    ledger = ledgers()
    for id_ in (1, 2):
        ledger.broker(id_, dirs=2)
    ledger.topic("a", assignments=[(0, (1, 2))])
    ledger.topic("b", assignments=[(0, (2,))])
    return ledger


def assign(ledger, directory, *, index=0, broker=1, topic=None):
    replica = InDirectory(directory, topic or ledger.image.topics.by_name["a"].id, index)
    return ledger.assign_replicas_to_dirs(broker, ledger.epoch(broker), [replica])[0]


def test_a_broker_says_where_its_replica_is(two):
    first, second = two.image.cluster.brokers[1].directories
    assert two.partition("a").directories == (UNASSIGNED, UNASSIGNED)
    assert assign(two, second) is None
    after = two.partition("a")
    assert after.directories == (second, UNASSIGNED)
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 0, 1)
    before = len(two.log)
    assert assign(two, second) is None
    assert len(two.log) == before
    assign(two, first)
    assert two.partition("a").directories == (first, UNASSIGNED)


def test_a_replica_in_a_directory_that_is_lost_already_leaves_the_isr(two):
    first, second = two.image.cluster.brokers[1].directories
    two.beat(1, offline=(first,))
    assert two.partition("a").leader == 1
    assert assign(two, first) is None
    after = two.partition("a")
    assert (after.leader, after.isr, after.directories[0]) == (2, (2,), first)
    assign(two, second)
    assert 1 not in two.partition("a").isr


def test_a_replica_that_its_broker_lost_leaves_the_isr(two):
    assign(two, LOST)
    assert (two.partition("a").leader, two.partition("a").isr) == (2, (2,))


def test_a_directory_that_is_lost_takes_its_replicas_out_of_the_isr(two):
    first, second = two.image.cluster.brokers[1].directories
    assign(two, second)
    two.beat(1, offline=(first,))
    assert two.partition("a").leader == 1
    two.beat(1, offline=(first, second))
    assert two.partition("a").leader == 2


def test_what_cannot_be_assigned(two):
    directory = two.image.cluster.brokers[1].directories[0]
    assert type(assign(two, directory, topic=Uuid(b"?" * 16))) is UnknownTopicId
    assert type(assign(two, directory, index=1)) is UnknownTopicOrPartition
    assert type(assign(two, directory, topic=two.image.topics.by_name["b"].id)) is NotLeaderOrFollower
    with pytest.raises(StaleBrokerEpoch):
        two.assign_replicas_to_dirs(1, 0, [])
    with pytest.raises(StaleBrokerEpoch):
        two.assign_replicas_to_dirs(9, 0, [])


def test_before_directories_had_ids_nothing_is_assigned(ledgers):
    old = ledgers(metadata_version=16)
    epoch = old.broker(1, unfence=False)
    with pytest.raises(UnsupportedVersion):
        old.assign_replicas_to_dirs(1, epoch, [])
