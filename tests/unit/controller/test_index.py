"""The index says what a look at all partitions would say."""

from __future__ import annotations

import pytest

from kavka.controller.index import PartitionIndex
from kavka.controller.reassignment import Reassign
from kavka.metadata.delta import apply


@pytest.fixture
def index():
    return PartitionIndex()


def names(found):
    return [(topic.name, number) for topic, number, _ in found]


def test_partitions_are_found_by_their_brokers_and_by_what_they_lack(three, index):
    three.topic("a", assignments=[(0, (1, 2)), (1, (2, 3))])
    three.topic("b", assignments=[(0, (3,))])
    three.broker(4)
    three.alter_reassignments([Reassign("a", 0, (1, 4))])
    three.beat(3, want_fence=True)
    index.at(three.image.topics)
    assert names(index.on(1)) == [("a", 0)]
    assert names(index.on(2)) == [("a", 0), ("a", 1)]
    assert names(index.on(9)) == []
    assert (index.led_by(1), index.led_by(2), index.led_by(3)) == (1, 1, 0)
    assert names(index.leaderless()) == [("b", 0)]
    assert names(index.unpreferred()) == [("b", 0)]
    assert names(index.moving()) == [("a", 0)]


def test_what_replay_changes_is_followed_without_looking_at_the_rest(three, index):
    three.topic("a", partitions=3, replication=2)
    before = three.image
    index.at(before.topics)
    size = len(three.log)
    three.topic("b", partitions=2, replication=3)
    three.delete_topics([three.image.topics.by_name["a"].id])
    after, delta = apply(before, three.log[size:], three.image.offset, 1)
    index.follow(before.topics, after.topics, delta)
    assert names(index.on(1)) == [("b", 0), ("b", 1)]
    assert sum(map(index.led_by, (1, 2, 3))) == 2


def test_an_index_that_was_never_asked_for_is_not_kept(three, index):
    before = three.image
    after, delta = apply(before, (), before.offset, 1)
    index.follow(before.topics, after.topics, delta)
    three.topic("a")
    index.follow(after.topics, three.image.topics, delta)
    assert len(names(index.at(three.image.topics).unpreferred())) == 0
    assert sum(map(index.led_by, (1, 2, 3))) == 1


def test_an_image_that_was_put_back_is_looked_at_anew(three, index):
    before = three.image
    three.topic("a", partitions=4, replication=1)
    index.at(three.image.topics)
    assert sum(map(index.led_by, (1, 2, 3))) == 4
    assert sum(map(index.at(before.topics).led_by, (1, 2, 3))) == 0
