"""The classic protocol inside of a consumer group."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, assigned, subscription, unassigned

from kavka.model.errors import KafkaError


@pytest.fixture
def shard():
    shard = Shard({"a": 4}, group_consumer_assignment_interval_ms=0)
    shard.beat("m1")
    return shard


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def joined(shard, **values):
    """A classic member; its id and generation."""
    id_ = shard.join(**values).member_id
    reply = shard.join(id_, **values)
    assert reply.error_code == 0
    return id_, reply.generation_id


def balanced(shard):
    """A consumer and a classic member with two partitions each; the latter's id and generation."""
    id_, _ = joined(shard)
    shard.beat("m1", 2)
    shard.beat("m1", 2, owned={"a": [0, 1]})
    generation = shard.join(id_).generation_id
    shard.sync(id_, generation)
    assert shard.group().state == "Stable"
    return id_, generation


def test_a_join_is_answered_at_once_and_a_sync_brings_what_is_free(shard):
    refused = shard.join()
    assert refused.error_code == 79
    reply = shard.join(refused.member_id)
    assert (reply.error_code, reply.generation_id) == (0, 3)
    assert (reply.protocol_type, reply.protocol_name, reply.leader, reply.members) == ("consumer", "range", "", [])
    synced = shard.sync(reply.member_id, 3, protocol_type="consumer", protocol_name="range")
    assert (unassigned(synced.assignment), synced.protocol_name) == ({}, "range")


def test_it_is_told_to_join_again_when_what_it_waits_for_is_free(shard):
    id_, generation = joined(shard)
    shard.sync(id_, generation)
    assert shard.classic_beat(id_, generation) == 0
    shard.beat("m1", 2)
    assert shard.classic_beat(id_, generation) == 0
    shard.beat("m1", 2, owned={"a": [0, 1]})
    assert shard.classic_beat(id_, generation) == 27
    generation = shard.join(id_).generation_id
    assert unassigned(shard.sync(id_, generation).assignment) == {"a": [2, 3]}
    assert shard.classic_beat(id_, generation) == 0


def test_it_gives_back_by_joining_again_without_the_partitions(shard):
    id_, generation = balanced(shard)
    assert assigned(shard.beat("m2")) == assigned(shard.beat("m3")) == {}
    assert shard.classic_beat(id_, generation) == 27
    reply = shard.join(id_, protocols={"range": subscription(["a"], {"a": [2, 3]})})
    kept = unassigned(shard.sync(id_, reply.generation_id).assignment)
    assert sum(map(len, kept.values())) == 1
    assert shard.classic_beat(id_, reply.generation_id) == 27  # it has said nothing of having given back
    shard.join(id_, protocols={"range": subscription(["a"], kept)})
    epoch = shard.group().epoch
    assert shard.member(id_).is_reconciled_to(epoch)


def test_an_eager_member_has_nothing_when_it_joins_again(shard):
    id_, _ = balanced(shard)
    shard.beat("m2")
    shard.join(id_, protocols={"range": subscription(["a"], version=0)})
    assert shard.member(id_).epoch == shard.group().epoch


def test_a_sync_at_an_old_epoch_is_told_to_join_again(shard):
    id_, generation = balanced(shard)
    shard.beat("m2")
    assert shard.sync(id_, generation).error_code == 27


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"generation": 99}, 22),
        ({"member": "unknown"}, 25),
        ({"member": "m1", "generation": 2}, 25),  # it does not use the classic protocol
        ({"instance": "i"}, 25),
        ({"protocol_type": "connect"}, 23),
        ({"protocol_name": "sticky"}, 23),
    ],
)
def test_a_sync_that_is_refused(shard, values, code):
    id_, generation = balanced(shard)
    assert code_of(lambda: shard.sync(**{"member": id_, "generation": generation, **values})) == code


@pytest.mark.parametrize(
    ("values", "code"),
    [({"generation": 99}, 22), ({"member": "unknown"}, 25), ({"member": "m1"}, 25), ({"instance": "i"}, 25)],
)
def test_a_heartbeat_that_is_refused(shard, values, code):
    id_, generation = balanced(shard)
    assert code_of(lambda: shard.classic_beat(**{"member": id_, "generation": generation, **values})) == code


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"protocol_type": "connect"}, 23),
        ({"protocols": {}}, 23),
        ({"protocols": {"other": subscription(["a"])}}, 23),
        ({"member": "m9", "protocols": {"range": b"?"}}, -1),
        ({"member": "m9", "instance": "i9"}, 25),
    ],
)
def test_a_join_that_is_refused(shard, values, code):
    joined(shard)
    assert shard.join(**values).error_code == code


def test_a_consumer_group_has_room_for_so_many_of_either_kind():
    shard = Shard({"a": 1}, group_consumer_max_size=1)
    shard.beat("m1")
    assert shard.join().error_code == 81


def test_its_session_is_the_one_it_asked_for(shard):
    id_, generation = joined(shard, session_timeout_ms=6_000)
    shard.sync(id_, generation)
    shard.advance(5_999)
    assert id_ in shard.group().members
    shard.advance(1)
    assert id_ not in shard.group().members


def test_who_joined_and_does_not_sync_in_time_is_out(shard):
    id_, _ = joined(shard, session_timeout_ms=100_000, rebalance_timeout_ms=30_000)
    shard.advance(30_000)
    assert id_ not in shard.group().members


def test_who_syncs_in_time_stays(shard):
    id_, generation = joined(shard, session_timeout_ms=100_000, rebalance_timeout_ms=30_000)
    shard.sync(id_, generation)
    shard.advance(30_000)
    assert id_ in shard.group().members


def test_who_is_told_to_join_again_and_does_not_in_time_is_out(shard):
    id_, generation = joined(shard, session_timeout_ms=100_000, rebalance_timeout_ms=30_000)
    shard.sync(id_, generation)
    shard.beat("m2")
    assert shard.classic_beat(id_, generation) == 27
    shard.advance(10_000)
    assert shard.classic_beat(id_, generation) == 27  # it does not get more time by asking again
    shard.advance(20_000)
    assert id_ not in shard.group().members


def test_members_leave_by_the_classic_protocol_too(shard):
    id_, _ = balanced(shard)
    seat = shard.join(instance="i1").member_id
    assert shard.leave("unknown", id_, ("", "i1"), ("", "i2"), ("other", "i1")) == [25, 0, 0, 25, 82]
    assert seat not in shard.group().members
    assert list(shard.group().members) == ["m1"]


def test_nobody_leaves_when_nobody_is_named_right(shard):
    written = len(shard.log)
    assert shard.leave("unknown") == [25]
    assert len(shard.log) == written


def test_a_static_classic_member_takes_its_seat_again(shard):
    first = shard.join(instance="i1")
    shard.sync(first.member_id, first.generation_id, instance="i1")
    again = shard.join(instance="i1")
    assert again.error_code == 0
    assert set(shard.group().members) == {"m1", again.member_id}
    assert code_of(lambda: shard.classic_beat(first.member_id, first.generation_id, instance="i1")) == 82
    assert shard.join(first.member_id, instance="i1").error_code == 82


def test_a_static_classic_member_comes_back_as_a_consumer(shard):
    first = shard.join(instance="i1")
    reply = shard.beat("m2", instance_id="i1")
    assert reply.error_code == 0
    assert shard.member("m2").classic is None
    assert first.member_id not in shard.group().members


def test_a_classic_member_is_shown_as_one(shard):
    id_, _ = balanced(shard)
    (group,) = shard.describe_consumer(["g"])
    assert {each.member_id: each.member_type for each in group.members} == {"m1": 1, id_: 0}
