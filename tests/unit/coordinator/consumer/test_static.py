"""Static members of consumer groups: a seat that outlives who sits on it."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, assigned

from kavka.model.errors import KafkaError


@pytest.fixture
def shard():
    return Shard({"a": 4}, group_consumer_assignment_interval_ms=0)


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_a_seat_that_was_left_for_a_while_is_waiting_with_all_its_partitions(shard):
    shard.beat("m1", instance_id="i1")
    reply = shard.beat("m1", -2, instance_id="i1")
    assert (reply.member_epoch, shard.member().epoch) == (-2, -2)
    back = shard.beat("m2", instance_id="i1")
    assert (back.member_epoch, assigned(back)) == (2, {"a": [0, 1, 2, 3]})
    assert list(shard.group().members) == ["m2"]
    assert shard.group().epoch == 2


def test_a_seat_that_nobody_takes_again_is_given_up_with_the_session(shard):
    shard.beat("m1", instance_id="i1")
    shard.beat("m1", -2, instance_id="i1")
    shard.advance(45_000)
    assert shard.group().state == "Empty"


def test_a_seat_that_is_taken_cannot_be_taken(shard):
    shard.beat("m1", instance_id="i1")
    assert code_of(lambda: shard.beat("m2", instance_id="i1")) == 111


def test_the_former_self_of_a_member_is_fenced(shard):
    shard.beat("m1", instance_id="i1")
    shard.beat("m1", -2, instance_id="i1")
    shard.beat("m2", instance_id="i1")
    assert code_of(lambda: shard.beat("m1", 2, instance_id="i1")) == 82
    assert code_of(lambda: shard.beat("m1", -1, instance_id="i1")) == 82
    assert code_of(lambda: shard.beat("m1", -2, instance_id="i1")) == 82


def test_a_seat_that_nobody_has_is_unknown(shard):
    shard.beat("m1")
    assert code_of(lambda: shard.beat("m2", 1, instance_id="i1")) == 25
    assert code_of(lambda: shard.beat("m2", -1, instance_id="i1")) == 25


def test_a_static_member_that_leaves_for_good_gives_up_its_seat(shard):
    shard.beat("m1", instance_id="i1")
    shard.beat("m1", -1, instance_id="i1")
    assert shard.group().static == {}
    assert shard.beat("m2", instance_id="i1").error_code == 0


def test_whoever_takes_a_seat_may_commit_from_its_first_epoch(shard):
    shard.beat("m1", instance_id="i1")
    shard.beat("m1", -2, instance_id="i1")
    (since,) = {since for found in shard.member().assigned.values() for since in found.values()}
    assert since == 0


def test_another_subscription_of_whoever_takes_the_seat_counts(shard):
    shard.create_topic("b", 2)
    shard.beat("m1", instance_id="i1")
    shard.beat("m1", -2, instance_id="i1")
    back = shard.beat("m2", instance_id="i1", topics=["b"])
    assert assigned(back) == {"b": [0, 1]}
    assert shard.group().owners.keys() == {(shard.topics.id_of("b"), 0), (shard.topics.id_of("b"), 1)}
