"""JoinGroup in classic groups: Kafka's rules and codes."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, subscription


@pytest.fixture
def shard():
    return Shard({"a": 4})


def state(shard):
    return shard.listed()["g"][0]


# -- becoming a member --------------------------------------------------------------------------------


def test_a_new_member_is_given_an_id_and_asked_to_come_again(shard):
    refused = shard.join()
    assert (refused.error_code, refused.member_id) == (79, "app-00000000-0000-0000-0000-000000000001")
    assert shard.listed() == {"g": ("Empty", "classic", "")}
    assert shard.records_since(0) == ["GroupMetadata"]


@pytest.mark.parametrize("version", [0, 3])
def test_before_version_4_a_new_member_is_taken_in_at_once(shard, version):
    token = shard.join(version=version)
    shard.advance(3_000)
    joined = shard.answer(token)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert joined.member_id == joined.leader == "app-00000000-0000-0000-0000-000000000001"


def test_an_id_that_nobody_uses_in_time_is_forgotten(shard):
    refused = shard.join(session_timeout_ms=6_000)
    shard.advance(6_000)
    assert shard.join(refused.member_id).error_code == 25


def test_the_first_rebalance_waits_for_others_and_longer_while_they_come(shard):
    _, first = shard.join_known()
    shard.advance(2_000)
    _, second = shard.join_known()
    shard.advance(3_999)  # it would be over at 3 s, but somebody came: at 6 s
    assert shard.answers == {}
    shard.advance(1)
    assert shard.answer(first).generation_id == shard.answer(second).generation_id == 1


def test_the_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout():
    shard = Shard(group_initial_rebalance_delay_ms=3_000)
    for _ in range(9):
        shard.join_known(rebalance_timeout_ms=7_000)
        shard.advance(1_000)
    assert len(shard.answers) == 7


def test_the_leader_is_told_of_everybody_and_others_are_not(shard):
    ids, generation = shard.stable(2)
    tokens = [shard.join(id_) for id_ in ids]
    leader, follower = (shard.answer(token) for token in tokens)
    assert leader.generation_id == follower.generation_id == generation + 1
    assert [each.member_id for each in leader.members] == ids
    assert [each.metadata for each in leader.members] == [subscription(["a"])] * 2
    assert follower.members == []
    assert (follower.leader, follower.protocol_type, follower.protocol_name) == (ids[0], "consumer", "range")


def test_version_0_has_one_timeout_for_both(shard):
    token = shard.join(version=0, session_timeout_ms=9_000)
    shard.advance(3_000)
    shard.sync(shard.answer(token).member_id, 1, {})
    (member,) = shard.group().metadata.members
    assert (member.rebalance_timeout, member.session_timeout) == (9_000, 9_000)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_an_error_has_no_protocol_in_the_form_of_its_version(shard, version, name):
    refused = shard.join("who", version=version)
    assert (refused.error_code, refused.protocol_name, refused.protocol_type) == (25, name, None)


# -- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"group": ""}, 24),
        ({"session_timeout_ms": 5_999}, 26),
        ({"session_timeout_ms": 1_800_001}, 26),
        ({"protocol_type": ""}, 23),
        ({"protocols": {}}, 23),
        ({"member": "unknown"}, 25),
    ],
)
def test_a_join_that_no_group_could_accept(shard, values, code):
    reply = shard.join(**values)
    assert (reply.error_code, reply.member_id) == (code, values.get("member", ""))
    assert shard.log == []


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"protocol_type": "connect"}, 23),
        ({"protocols": {"roundrobin": b""}}, 23),
        ({"member": "unknown"}, 25),
        ({"instance": "nobody", "member": "unknown"}, 25),
    ],
)
def test_a_join_that_this_group_cannot_accept(shard, values, code):
    shard.stable(1)
    assert shard.join(**values).error_code == code


def test_a_group_has_room_for_so_many():
    shard = Shard({"a": 1}, group_max_size=2)
    ids, _ = shard.stable(2)
    refused = shard.join()
    assert (refused.error_code, refused.member_id) == (81, "")
    assert isinstance(shard.join(ids[1], protocols={"range": b"\0\0"}), int)


def test_a_group_that_is_too_large_loses_those_who_join_last():
    shard = Shard({"a": 1})
    ids, _ = shard.stable(3)
    shard.settings["group.max.size"] = "2"
    shard.start()
    assert shard.listed()["g"][0] == "PreparingRebalance"
    tokens = [shard.join(id_) for id_ in ids]
    assert shard.answer(tokens[2]).error_code == 81
    shard.advance(60_000)
    assert [shard.answer(token).error_code for token in tokens[:2]] == [0, 0]


# -- joining again ------------------------------------------------------------------------------------


def test_a_follower_that_says_nothing_new_is_told_of_the_present_generation(shard):
    ids, generation = shard.stable(2)
    reply = shard.join(ids[1])
    assert (reply.error_code, reply.generation_id, reply.members) == (0, generation, [])
    assert shard.listed()["g"][0] == "Stable"


def test_a_leader_that_joins_again_makes_everybody_join(shard):
    ids, generation = shard.stable(2)
    token = shard.join(ids[0])
    assert shard.classic_beat(ids[1], generation) == 27
    follower = shard.join(ids[1])
    assert shard.answer(token).generation_id == shard.answer(follower).generation_id == generation + 1


def test_a_follower_with_another_subscription_makes_everybody_join(shard):
    ids, generation = shard.stable(2)
    shard.join(ids[1], protocols={"range": subscription(["a", "b"])})
    assert shard.classic_beat(ids[0], generation) == 27


def test_who_missed_the_answer_of_its_join_gets_it_again(shard):
    ids, _ = shard.stable(2)
    tokens = [shard.join(id_) for id_ in ids]
    before = [shard.answer(token) for token in tokens]
    assert state(shard) == "CompletingRebalance"
    assert [shard.join(id_) for id_ in ids] == before


def test_another_subscription_before_the_assignment_starts_over(shard):
    ids, _ = shard.stable(2)
    for id_ in ids:
        shard.join(id_)
    waits = shard.sync(ids[1], 2)
    shard.join(ids[0], protocols={"range": subscription(["b"])})
    assert shard.answer(waits).error_code == 27
    assert state(shard) == "PreparingRebalance"


def test_of_two_tries_of_one_member_the_first_is_told_to_try_again(shard):
    ids, _ = shard.stable(2)
    first = shard.join(ids[0])
    second = shard.join(ids[0])
    assert shard.answer(first).error_code == 27
    shard.join(ids[1])
    assert shard.answer(second).error_code == 0


# -- protocols ----------------------------------------------------------------------------------------


def test_the_protocol_that_most_like_best_is_chosen_among_those_that_all_know():
    shard = Shard(group_initial_rebalance_delay_ms=0)
    says = [["x", "b", "a"], ["a", "b"], ["b", "a"]]
    tokens = [shard.join_known(protocols=dict.fromkeys(names, b""))[1] for names in says]
    shard.advance(0)
    assert {shard.answer(token).protocol_name for token in tokens} == {"b"}


def test_of_protocols_with_as_many_votes_the_first_by_name_is_chosen():
    shard = Shard(group_initial_rebalance_delay_ms=0)
    tokens = [shard.join_known(protocols=dict.fromkeys(names, b""))[1] for names in (["b", "a"], ["a", "b"])]
    shard.advance(0)
    assert {shard.answer(token).protocol_name for token in tokens} == {"a"}


def test_any_protocol_type_makes_a_group():
    shard = Shard(group_initial_rebalance_delay_ms=0)
    _, token = shard.join_known(protocol_type="connect", protocols={"sessioned": b"x"})
    shard.advance(0)
    assert shard.answer(token).protocol_type == "connect"
    assert shard.listed()["g"] == ("CompletingRebalance", "classic", "connect")
