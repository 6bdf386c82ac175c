"""Groups that change their kind, with members in them or without."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, assigned, assignment, subscription, unassigned

from kavka.coordinator.classic.embedded import AssignedPartitions, ConsumerProtocolAssignment
from kavka.coordinator.classic.state import ClassicGroup
from kavka.coordinator.consumer.state import ConsumerGroup
from kavka.model.errors import KafkaError
from kavka.protocol.compiler import encode


@pytest.fixture
def shard():
    return Shard({"a": 4}, group_consumer_assignment_interval_ms=0)


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def own_data():
    message = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedPartitions(topic="a", partitions=[0])], user_data=b"mine"
    )
    return b"\0\0" + encode(message, 0)


# -- without members ----------------------------------------------------------------------------------


def test_an_empty_classic_group_becomes_a_consumer_group(shard):
    ids, _ = shard.stable(1)
    shard.leave(*ids)
    start = len(shard.log)
    assert shard.beat("m1").member_epoch == 2
    assert shard.records_since(start)[0] == "-GroupMetadata"
    assert isinstance(shard.group(), ConsumerGroup)


def test_an_empty_consumer_group_becomes_a_classic_group(shard):
    shard.beat("m1")
    shard.beat("m1", -1)
    start = len(shard.log)
    assert shard.join().error_code == 79
    assert shard.records_since(start) == [
        "-ConsumerGroupTargetAssignmentMetadata",
        "-ConsumerGroupPartitionMetadata",
        "-ConsumerGroupMetadata",
        "GroupMetadata",
    ]
    assert isinstance(shard.group(), ClassicGroup)


def test_a_join_that_is_refused_changes_nothing(shard):
    shard.beat("m1")
    shard.beat("m1", -1)
    written = len(shard.log)
    assert shard.join(protocols={}).error_code == 23
    assert shard.join("m1").error_code == 25
    assert len(shard.log) == written


def test_offsets_outlive_the_change(shard):
    shard.commit(5)
    shard.beat("m1")
    assert shard.fetch()[0] == 5
    shard.beat("m1", -1)
    shard.join()
    assert shard.fetch()[0] == 5


# -- from classic to consumer -------------------------------------------------------------------------


def test_members_keep_what_they_have_when_a_consumer_joins(shard):
    ids, generation = shard.stable(2)
    start = len(shard.log)
    reply = shard.beat("m1")
    assert shard.records_since(start)[0] == "-GroupMetadata"
    group = shard.group()
    assert (group.classic_count, group.epoch, reply.member_epoch) == (2, generation + 1, generation + 1)
    for number, id_ in enumerate(ids):
        assert group.members[id_].assigned == {shard.topics.id_of("a"): {number: generation}}
    assert assigned(reply) == {"a": [2]} or assigned(reply) == {"a": [3]}  # what nobody had
    assert [shard.classic_beat(id_, generation) for id_ in ids] == [27, 27]


def test_who_waits_for_the_classic_group_is_told_to_join_again(shard):
    ids, generation = shard.stable(3)
    joins = shard.join(ids[0])
    shard.beat("m1")
    assert shard.answer(joins).error_code == 27
    ids, generation = shard.stable(2, group="h")
    tokens = [shard.join(id_, group="h") for id_ in ids]
    generation = shard.answer(tokens[1]).generation_id
    syncs = shard.sync(ids[1], generation, group="h")
    shard.beat("m1", group="h")
    assert shard.answer(syncs).error_code == 27
    assert shard.parked == set()


def test_a_member_counts_as_owner_of_what_it_was_last_given_though_a_rebalance_was_broken_off(shard):
    ids, _ = shard.stable(2)
    for id_ in ids:
        shard.join(id_)
    shard.join(ids[0], protocols={"range": subscription(["a"], {"a": [0]})})  # before anything was assigned
    reply = shard.beat("m1")
    assert not {0, 1} & set(assigned(reply).get("a", []))
    assert [shard.member(id_).assigned for id_ in ids] == [
        {shard.topics.id_of("a"): {0: 2}},
        {shard.topics.id_of("a"): {1: 2}},
    ]


def test_a_group_that_never_had_a_generation_can_be_upgraded(shard):
    member, token = shard.join_known()
    reply = shard.beat("m1")
    assert shard.answer(token).error_code == 27
    assert (member in shard.group().members, reply.member_epoch) == (True, 1)


def test_a_partition_that_the_leader_gave_twice_has_one_owner(shard):
    ids, _ = shard.stable(2)
    tokens = [shard.join(id_) for id_ in ids]
    generation = shard.answer(tokens[0]).generation_id
    shard.sync(ids[0], generation, dict.fromkeys(ids, assignment(a=[0, 1])))
    shard.beat("m1")
    owned = [set(shard.member(id_).assigned.get(shard.topics.id_of("a"), {})) for id_ in ids]
    assert owned == [{0, 1}, set()]


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({"group_consumer_migration_policy": "disabled"}, assignment(a=[0])),
        ({"group_consumer_migration_policy": "DOWNGRADE"}, assignment(a=[0])),
        ({"group_consumer_max_size": 1}, assignment(a=[0])),
        ({}, own_data()),
        ({}, b"?"),
    ],
)
def test_a_classic_group_that_must_stay_one(settings, given):
    shard = Shard({"a": 4}, **settings)
    ids, _ = shard.stable(2)
    tokens = [shard.join(id_) for id_ in ids]
    generation = shard.answer(tokens[0]).generation_id
    shard.sync(ids[0], generation, dict.fromkeys(ids, given))
    written = len(shard.log)
    assert code_of(lambda: shard.beat("m1")) == 69
    assert len(shard.log) == written
    assert shard.sync(ids[1], generation).assignment == given


def test_a_classic_group_of_no_consumers_stays_one(shard):
    shard.stable(1, protocol_type="connect")
    assert code_of(lambda: shard.beat("m1")) == 69


# -- from consumer to classic -------------------------------------------------------------------------


def mixed(shard, **values):
    """A consumer group of one member of each protocol; the classic one's id."""
    shard.beat("m1", **values)
    member = shard.join().member_id
    shard.join(member)
    return member


def test_when_the_last_consumer_leaves_the_group_is_a_classic_one_that_gathers(shard):
    member = mixed(shard)
    epoch = shard.member(member).epoch
    start = len(shard.log)
    shard.beat("m1", -1)
    assert isinstance(shard.group(), ClassicGroup)
    assert shard.records_since(start)[-1] == "GroupMetadata"
    assert shard.listed()["g"] == ("PreparingRebalance", "classic", "consumer")
    assert shard.group().metadata.generation == shard.state.groups["g"].metadata.generation >= epoch
    token = shard.join(member)
    reply = shard.answer(token)
    assert (reply.error_code, reply.leader) == (0, member)


def test_when_the_last_consumer_is_silent_the_group_is_a_classic_one(shard):
    member = mixed(shard)
    for _ in range(9):
        shard.advance(5_000)
        if isinstance(shard.group(), ConsumerGroup):
            shard.classic_beat(member, shard.member(member).epoch)
    assert isinstance(shard.group(), ClassicGroup)


def test_a_static_consumer_that_comes_back_as_a_classic_one_downgrades_without_a_rebalance(shard):
    shard.beat("m1", instance_id="i1")
    shard.beat("m1", -2, instance_id="i1")
    reply = shard.join(instance="i1")
    assert (reply.error_code, reply.protocol_name, reply.leader) == (0, "range", "")
    assert isinstance(shard.group(), ClassicGroup)
    assert shard.listed()["g"][0] == "Stable"
    synced = shard.sync(reply.member_id, reply.generation_id, instance="i1")
    assert unassigned(synced.assignment) == {"a": [0, 1, 2, 3]}
    assert shard.classic_beat(reply.member_id, reply.generation_id, instance="i1") == 0


def test_a_downgrade_in_the_middle_of_a_rebalance_starts_it_over(shard):
    """Nobody may be told its target as its assignment while someone else still has a part of it."""
    shard.beat("m1", instance_id="i1")
    shard.beat("m1", 2, instance_id="i1", owned={"a": [0, 1, 2, 3]})
    classic = shard.join().member_id
    shard.join(classic, protocols={"range": subscription(["a"])})
    assert shard.beat("m1", 2, instance_id="i1").member_epoch == 2  # it is to give two back
    shard.beat("m1", -2, instance_id="i1")
    reply = shard.join(instance="i1")
    assert isinstance(shard.group(), ClassicGroup)
    assert shard.listed()["g"][0] == "PreparingRebalance"
    assert code_of(lambda: shard.sync(reply.member_id, reply.generation_id, instance="i1")) in (22, 27)


def test_a_downgrade_in_which_members_cannot_be_read_leaves_a_consumer_group(shard):
    shard.beat("m1")
    said = subscription(["a"])
    for protocols in ({"x": said, "y": b"?"}, {"y": said, "x": b"?"}):
        member = shard.join(protocols=protocols).member_id
        assert shard.join(member, protocols=protocols).error_code == 0
    shard.beat("m1", -1)
    assert isinstance(shard.group(), ConsumerGroup)
    assert "m1" not in shard.group().members


def test_a_downgrade_that_is_not_allowed_leaves_a_consumer_group():
    shard = Shard({"a": 4}, group_consumer_migration_policy="upgrade")
    member = mixed(shard)
    shard.beat("m1", -1)
    assert list(shard.group().members) == [member]


def test_a_downgrade_that_would_be_too_large_leaves_a_consumer_group():
    shard = Shard({"a": 4}, group_max_size=1)
    mixed(shard)
    other = shard.join().member_id
    shard.join(other)
    shard.beat("m1", -1)
    assert isinstance(shard.group(), ConsumerGroup)


def test_classic_members_cannot_join_when_migration_is_disabled():
    shard = Shard({"a": 4}, group_consumer_migration_policy="disabled")
    shard.beat("m1")
    assert shard.join().error_code == 23


def test_there_and_back_again(shard):
    ids, _ = shard.stable(2)
    shard.beat("m1")
    shard.beat("m1", -1)
    assert isinstance(shard.group(), ClassicGroup)
    tokens = [shard.join(id_) for id_ in ids]
    replies = [shard.answer(token) for token in tokens]
    assert {reply.error_code for reply in replies} == {0}
    assert len({reply.leader for reply in replies}) == 1
