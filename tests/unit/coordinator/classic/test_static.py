"""Static members of classic groups (KIP-345): they come back to their seat, and no rebalance notices."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, assignment, subscription

from kavka.model.errors import KafkaError


@pytest.fixture
def shard():
    return Shard({"a": 4})


def seated(shard, *seats, version=9):
    """A stable group of static members, its leader first; ids by seat, and the generation."""
    tokens = {seat: shard.join(instance=seat, version=version) for seat in seats}
    shard.advance(6_000)
    replies = {seat: shard.answer(token) for seat, token in tokens.items()}
    generation = replies[seats[0]].generation_id
    ids = {seat: reply.member_id for seat, reply in replies.items()}
    given = {ids[seat]: assignment(a=[number]) for number, seat in enumerate(seats)}
    for seat in seats[::-1]:
        shard.sync(ids[seat], generation, given if seat == seats[0] else None, instance=seat)
    assert shard.listed()["g"][0] == "Stable"
    return ids, generation


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_a_static_member_is_taken_in_without_being_asked_to_come_again(shard):
    ids, _ = seated(shard, "i1")
    assert ids["i1"].startswith("i1-")


def test_a_follower_that_comes_back_has_what_it_had_and_nobody_else_notices(shard):
    ids, generation = seated(shard, "i1", "i2")
    start = len(shard.log)
    back = shard.join(instance="i2")
    assert back.member_id != ids["i2"]
    assert (back.error_code, back.generation_id, back.leader, back.members) == (0, generation, ids["i1"], [])
    assert shard.sync(back.member_id, generation, instance="i2").assignment == assignment(a=[1])
    assert shard.classic_beat(ids["i1"], generation) == 0
    assert shard.records_since(start) == ["GroupMetadata"]


def test_a_leader_that_comes_back_leads_but_does_not_assign(shard):
    ids, generation = seated(shard, "i1", "i2")
    back = shard.join(instance="i1")
    assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)
    assert shard.sync(back.member_id, generation, instance="i1").assignment == assignment(a=[0])
    assert shard.classic_beat(ids["i2"], generation) == 0


def test_before_version_9_a_leader_that_comes_back_is_not_told_that_it_leads(shard):
    ids, _ = seated(shard, "i1", "i2")
    back = shard.join(instance="i1", version=8)
    assert (back.leader, back.skip_assignment, back.members) == (ids["i1"], False, [])


def test_the_former_self_of_a_member_is_fenced(shard):
    ids, generation = seated(shard, "i1", "i2")
    shard.join(instance="i2")
    for call in (
        lambda: shard.classic_beat(ids["i2"], generation, instance="i2"),
        lambda: shard.sync(ids["i2"], generation, instance="i2"),
        lambda: shard.commit(member=ids["i2"], epoch=generation, instance="i2"),
    ):
        assert code_of(call) == 82
    assert shard.join(ids["i2"], instance="i2").error_code == 82
    assert shard.leave((ids["i2"], "i2")) == [82]


def test_the_former_self_that_waits_is_fenced_at_once(shard):
    ids, _ = seated(shard, "i1", "i2")
    joins = shard.join(ids["i1"], instance="i1")
    later = shard.join(instance="i1")
    assert shard.answer(joins).error_code == 82
    shard.join(ids["i2"], instance="i2")
    generation = shard.answer(later).generation_id
    syncs = shard.sync(ids["i2"], generation, instance="i2")
    shard.join(instance="i2")
    assert shard.answer(syncs).error_code == 82


def test_one_that_comes_back_with_another_protocol_makes_everybody_join(shard):
    said = subscription(["a"])
    tokens = [shard.join(instance=seat, protocols={"x": said, "y": said}) for seat in ("i1", "i2")]
    shard.advance(6_000)
    leader, other = (shard.answer(token) for token in tokens)
    shard.sync(other.member_id, 1, instance="i2")
    shard.sync(leader.member_id, 1, {}, instance="i1")
    assert isinstance(shard.join(instance="i2", protocols={"y": said}), int)
    assert shard.classic_beat(leader.member_id, 1, instance="i1") == 27


def test_one_that_comes_back_before_the_assignment_makes_everybody_join(shard):
    ids, _ = seated(shard, "i1", "i2")
    tokens = [shard.join(ids[seat], instance=seat) for seat in ("i1", "i2")]
    generation = shard.answer(tokens[0]).generation_id
    assert isinstance(shard.join(instance="i2"), int)
    assert shard.classic_beat(ids["i1"], generation, instance="i1") == 27


def test_static_members_stay_in_a_generation_they_did_not_join(shard):
    ids, generation = seated(shard, "i1", "i2")
    token = shard.join(ids["i1"], instance="i1", session_timeout_ms=200_000, rebalance_timeout_ms=60_000)
    for _ in range(12):
        assert shard.classic_beat(ids["i2"], generation, instance="i2") == 27
        shard.advance(5_000)
    assert len(shard.answer(token).members) == 2


def test_an_administrator_takes_a_static_member_out_by_its_seat(shard):
    ids, generation = seated(shard, "i1", "i2")
    assert shard.leave(("", "i2"), ("", "i3")) == [0, 25]
    assert shard.classic_beat(ids["i1"], generation, instance="i1") == 27


def test_static_members_are_in_the_log_and_survive_a_failover(shard):
    ids, generation = seated(shard, "i1", "i2")
    shard.start()
    assert shard.classic_beat(ids["i2"], generation, instance="i2") == 0
    assert shard.join(instance="i2").error_code == 0


def test_nobody_gets_an_id_by_asking_as_a_static_member(shard):
    handed_out = shard.join().member_id
    assert shard.join(handed_out, instance="i1").error_code == -1


def test_a_static_leader_that_does_not_join_stays_but_another_one_leads(shard):
    ids, generation = seated(shard, "i1", "i2")
    said = {"range": subscription(["a", "b"])}
    token = shard.join(ids["i2"], instance="i2", protocols=said, session_timeout_ms=200_000)
    for _ in range(12):
        shard.classic_beat(ids["i1"], generation, instance="i1")
        shard.advance(5_000)
    joined = shard.answer(token)
    assert (joined.leader, len(joined.members)) == (ids["i2"], 2)


def test_when_nobody_joins_a_group_of_static_members_waits_until_sessions_are_over(shard):
    ids, generation = seated(shard, "i1", "i2", "i3")
    shard.leave(("", "i3"))
    for _ in range(13):
        shard.advance(5_000)
        assert shard.classic_beat(ids["i1"], generation, instance="i1") == 27
    assert shard.listed()["g"][0] == "PreparingRebalance"
    shard.advance(10_000)
    assert shard.listed()["g"][0] == "Empty"
