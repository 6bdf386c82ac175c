"""ConsumerGroupHeartbeat: joining, staying, being fenced; Kafka's rules and codes."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, assigned

from kavka.model.errors import KafkaError


@pytest.fixture
def shard():
    return Shard({"a": 4, "b": 2}, group_consumer_assignment_interval_ms=0)


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def two_members(shard):
    """A stable group of two, who share four partitions; the epoch."""
    shard.beat("m1")
    shard.beat("m2")
    shard.beat("m1", 2)
    shard.beat("m1", 2, owned={"a": [0, 1]})
    shard.beat("m2", 3)
    assert shard.group().state == "Stable"
    return 3


# -- joining ------------------------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once(shard):
    reply = shard.beat("m1", topics=["a", "b"])
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("m1", 2, 5_000)
    assert assigned(reply) == {"a": [0, 1, 2, 3], "b": [0, 1]}
    assert shard.records_since(0) == [
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]


def test_an_id_that_the_client_made_is_taken(shard):
    assert shard.beat("its-own-id", version=1).member_id == "its-own-id"


def test_version_0_may_leave_the_id_to_the_coordinator(shard):
    reply = shard.beat("", version=0)
    assert reply.member_id == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert shard.beat(reply.member_id, reply.member_epoch).error_code == 0


def test_who_wants_no_topic_is_a_member_all_the_same(shard):
    reply = shard.beat("m1", topics=[])
    assert (reply.member_epoch, assigned(reply)) == (1, {})
    assert shard.group().state == "Stable"


def test_topics_that_are_not_there_are_waited_for(shard):
    reply = shard.beat("m1", topics=["c"])
    assert assigned(reply) == {}
    shard.create_topic("c", 2)
    assert assigned(shard.beat("m1", reply.member_epoch)) == {"c": [0, 1]}


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"member": "", "version": 1}, 42),
        ({"member": " ", "version": 1}, 42),
        ({"member": "", "epoch": 1, "version": 0}, 42),
        ({"member": "", "epoch": -1, "version": 0}, 42),
        ({"group": ""}, 42),
        ({"instance_id": ""}, 42),
        ({"rack_id": " "}, 42),
        ({"rebalance_timeout_ms": -1}, 42),
        ({"owned": None}, 42),
        ({"owned": {"a": [0]}}, 42),
        ({"topics": None}, 42),
        ({"epoch": -2}, 42),
        ({"epoch": -3}, 42),
        ({"assignor": "mine"}, 112),
        ({"epoch": 1}, 69),
        ({"epoch": -1}, 69),
        ({"epoch": -2, "instance_id": "i"}, 69),
    ],
)
def test_a_heartbeat_that_no_group_could_accept(shard, values, code):
    assert code_of(lambda: shard.beat(**values)) == code
    assert shard.log == []


def test_a_group_has_room_for_so_many():
    shard = Shard({"a": 1}, group_consumer_max_size=1)
    shard.beat("m1")
    assert code_of(lambda: shard.beat("m2")) == 81
    assert shard.beat("m1").error_code == 0


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"group": ""}, "GroupId can't be empty."),
        ({"assignor": "x"}, "ServerAssignor x is not supported. Supported assignors: uniform, range."),
    ],
)
def test_a_refusal_has_the_words_that_clients_look_for(shard, how, words):
    with pytest.raises(KafkaError) as refused:
        shard.beat("m1", **how)
    assert str(refused.value) == words


# -- staying ------------------------------------------------------------------------------------------


def test_a_member_is_told_what_it_shall_have_until_it_says_that_it_has_it(shard):
    shard.beat("m1")
    assert shard.beat("m1", 2, owned={"a": [0, 1, 2, 3]}).assignment is None
    shard.beat("m2")
    assert assigned(shard.beat("m1", 2)) == {"a": [0, 1]}
    written = len(shard.log)
    assert assigned(shard.beat("m1", 2)) == {"a": [0, 1]}  # it may have missed the first answer
    assert assigned(shard.beat("m1", 2, owned={"a": [0, 1, 2, 3]})) == {"a": [0, 1]}  # what it had before
    assert len(shard.log) == written
    assert shard.beat("m1", 2, owned={"a": [0, 1]}).member_epoch == 3
    assert shard.beat("m1", 3).assignment is None


def test_a_member_that_knows_the_epoch_of_an_answer_has_heard_the_rest_of_it(shard):
    assert assigned(shard.beat("m1")) == {"a": [0, 1, 2, 3]}
    assert shard.beat("m1", 2).assignment is None


def test_who_comes_back_is_told_again(shard):
    shard.beat("m1")
    shard.beat("m1", 2, owned={"a": [0, 1, 2, 3]})
    assert assigned(shard.beat("m1", 0)) == {"a": [0, 1, 2, 3]}
    shard.beat("m1", -1)
    shard.beat("m1", topics=["c"])
    assert shard.beat("m1", shard.member("m1").epoch).assignment is None


def test_a_steady_member_writes_nothing_and_sets_no_timer(shard):
    epoch = two_members(shard)
    shard.beat("m1", epoch)
    timers, written = dict(shard.timers), len(shard.log)
    shard.now_ms += 1_000
    reply = shard.beat("m1", epoch)
    assert (reply.member_epoch, reply.assignment) == (epoch, None)
    assert (shard.timers, len(shard.log)) == (timers, written)


def test_who_says_everything_is_told_everything(shard):
    epoch = two_members(shard)
    reply = shard.beat("m1", epoch, topics=["a"], rebalance_timeout_ms=300_000, owned={"a": [0, 1]})
    assert assigned(reply) == {"a": [0, 1]}


def test_a_known_member_that_joins_again_is_told_where_it_is(shard):
    epoch = two_members(shard)
    written = len(shard.log)
    reply = shard.beat("m1")
    assert (reply.member_epoch, assigned(reply)) == (epoch, {"a": [0, 1]})
    assert len(shard.log) == written


def test_a_member_of_an_unknown_group_or_id_is_told_so(shard):
    two_members(shard)
    assert code_of(lambda: shard.beat("m9", 3)) == 25
    assert code_of(lambda: shard.beat("m9", -1)) == 25
    assert code_of(lambda: shard.beat("m1", 3, group="other")) == 69


@pytest.mark.parametrize(("epoch", "owned"), [(4, {}), (1, {}), (2, None), (2, {"a": [0, 2]})])
def test_a_member_at_an_epoch_that_cannot_be_is_fenced(shard, epoch, owned):
    two_members(shard)
    assert code_of(lambda: shard.beat("m1", epoch, owned=owned)) == 110


def test_who_missed_the_last_answer_may_come_with_the_epoch_before(shard):
    two_members(shard)
    reply = shard.beat("m1", 2, owned={"a": [0]})
    assert reply.member_epoch == 3


def test_a_silent_member_is_out_and_its_partitions_go_to_others(shard):
    epoch = two_members(shard)
    shard.advance(44_999)
    shard.beat("m2", epoch)
    shard.advance(1)
    assert list(shard.group().members) == ["m2"]
    assert assigned(shard.beat("m2", epoch)) == {"a": [0, 1, 2, 3]}
    assert code_of(lambda: shard.beat("m1", epoch)) == 25


def test_who_leaves_frees_its_partitions_at_once(shard):
    epoch = two_members(shard)
    start = len(shard.log)
    reply = shard.beat("m1", -1)
    assert (reply.member_id, reply.member_epoch) == ("m1", -1)
    assert shard.records_since(start) == [
        "-ConsumerGroupCurrentMemberAssignment",
        "-ConsumerGroupTargetAssignmentMember",
        "-ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
    ]
    assert assigned(shard.beat("m2", epoch)) == {"a": [0, 1, 2, 3]}


def test_a_group_that_everybody_left_is_empty(shard):
    shard.beat("m1")
    shard.beat("m1", -1)
    assert shard.listed() == {"g": ("Empty", "consumer", "consumer")}


def test_what_a_member_says_of_itself_is_kept(shard):
    shard.beat("m1", rack_id="r1", app="app1", host="/h1")
    shard.beat("m1", 2, app="app1", host="/h2")
    member = shard.member()
    assert (member.rack_id, member.client_id, member.client_host) == ("r1", "app1", "/h2")


# -- giving and taking --------------------------------------------------------------------------------


def test_a_partition_is_given_only_after_its_owner_let_it_go(shard):
    shard.beat("m1")
    second = shard.beat("m2")
    assert (second.member_epoch, assigned(second)) == (3, {})
    first = shard.beat("m1", 2)
    assert (first.member_epoch, assigned(first)) == (2, {"a": [0, 1]})
    assert shard.beat("m2", 3).assignment is None  # m1 still has them
    first = shard.beat("m1", 2, owned={"a": [0, 1, 2]})
    assert first.member_epoch == 2  # and now only some of them
    assert shard.beat("m2", 3).assignment is None
    first = shard.beat("m1", 2, owned={"a": [0, 1]})
    assert (first.member_epoch, first.assignment) == (3, None)
    assert assigned(shard.beat("m2", 3)) == {"a": [2, 3]}


def test_who_does_not_give_back_in_time_is_out(shard):
    shard.beat("m1", rebalance_timeout_ms=60_000)
    shard.beat("m2")
    shard.beat("m1", 2)
    for _ in range(5):
        shard.advance(11_000)
        shard.beat("m1", 2)
        shard.beat("m2", 3)
    shard.advance(4_999)
    assert "m1" in shard.group().members
    shard.advance(1)
    assert "m1" not in shard.group().members


def test_who_gives_back_in_time_stays(shard):
    shard.beat("m1", rebalance_timeout_ms=60_000)
    shard.beat("m2")
    shard.beat("m1", 2)
    shard.beat("m1", 2, owned={"a": [0, 1]})
    for _ in range(10):
        shard.advance(11_000)
        shard.beat("m1", 3)
        shard.beat("m2", 3)
    assert set(shard.group().members) == {"m1", "m2"}


def test_a_failover_does_not_forget_who_must_give_back(shard):
    shard.beat("m1", rebalance_timeout_ms=30_000)
    shard.beat("m2")
    shard.beat("m1", 2)
    shard.start()
    shard.advance(30_000)
    assert list(shard.group().members) == ["m2"]


def test_another_subscription_takes_the_old_topics_away(shard):
    shard.beat("m1", topics=["a"])
    reply = shard.beat("m1", 2, topics=["b"])
    assert (reply.member_epoch, assigned(reply)) == (2, {})
    reply = shard.beat("m1", 2, owned={})
    assert (reply.member_epoch, assigned(reply)) == (3, {"b": [0, 1]})


def test_new_partitions_are_given_out(shard):
    epoch = two_members(shard)
    shard.grow_topic("a", 6)
    replies = [shard.beat(id_, epoch) for id_ in ("m1", "m2")]
    assert [len(assigned(reply)["a"]) for reply in replies] == [3, 3]


def test_a_deleted_topic_is_taken_away(shard):
    shard.beat("m1", topics=["a", "b"])
    shard.delete_topic("b")
    reply = shard.beat("m1", 2, owned={"a": [0, 1, 2, 3]})
    assert (reply.member_epoch, assigned(reply)) == (3, {"a": [0, 1, 2, 3]})


def test_targets_are_not_worked_out_again_within_the_interval():
    shard = Shard({"a": 4})
    shard.beat("m1")
    assert assigned(shard.beat("m2")) == {}
    assert shard.group().state == "Assigning"
    assert shard.beat("m1", 2, owned={"a": [0, 1, 2, 3]}).assignment is None
    shard.advance(1_000)
    assert assigned(shard.beat("m1", 2)) == {"a": [0, 1]}


def test_the_assignor_that_most_ask_for_is_used(shard):
    shard.beat("m1", topics=["a", "b"], assignor="range")
    shard.beat("m2", topics=["a", "b"])
    assert shard.describe_consumer(["g"])[0].assignor_name == "range"
    targets = shard.group().targets
    assert {len(found) for found in targets.values()} == {2}  # a run of each topic
    shard.beat("m2", 3, assignor="uniform")
    shard.beat("m3", topics=["a", "b"], assignor="uniform")
    assert shard.group().preferred_assignor == "uniform"


# -- settings -----------------------------------------------------------------------------------------


def test_a_group_may_have_settings_of_its_own(shard):
    shard.configure(consumer_session_timeout_ms=60_000, consumer_heartbeat_interval_ms=7_000)
    assert shard.beat("m1").heartbeat_interval_ms == 7_000
    shard.advance(59_999)
    assert shard.group().members
    shard.advance(1)
    assert not shard.group().members


def test_a_groups_settings_stay_within_the_bounds_of_the_node(shard):
    shard.configure(consumer_session_timeout_ms=1, consumer_heartbeat_interval_ms=999_999)
    assert shard.beat("m1").heartbeat_interval_ms == 15_000
    shard.advance(44_999)
    assert shard.group().members


def test_a_shorter_session_counts_from_the_next_heartbeat(shard):
    shard.configure(consumer_session_timeout_ms=60_000)
    shard.beat("m1")
    shard.configure(consumer_session_timeout_ms=45_000)
    shard.beat("m1", 2)
    shard.advance(45_000)
    assert not shard.group().members
