"""Offsets that nobody uses are forgotten after a time: Kafka's rules per kind and state of group."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, subscription

MINUTE = 60_000


@pytest.fixture
def shard():
    return Shard({"a": 1, "b": 1}, offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE)


def offsets(shard, group="g"):
    return set(shard.fetch_all(group))


def keep(shard, beat, ms):
    """Let time go by with somebody in the group."""
    for _ in range(ms // 5_000):
        shard.advance(5_000)
        beat()


def test_offsets_of_a_simple_group_go_by_their_commit(shard):
    shard.commit(1)
    shard.advance(5 * MINUTE)
    shard.commit(1, topic="b")
    shard.advance(5 * MINUTE)
    assert offsets(shard) == {("b", 0)}
    shard.advance(5 * MINUTE)
    assert shard.state.groups == {}


def test_offsets_of_an_empty_group_go_by_when_it_emptied(shard):
    ids, generation = shard.stable(1)
    shard.commit(1, member=ids[0], epoch=generation)
    keep(shard, lambda: shard.classic_beat(ids[0], generation), 9 * MINUTE)
    shard.leave(*ids)
    shard.advance(10 * MINUTE - 1)
    assert offsets(shard) == {("a", 0)}
    shard.advance(MINUTE)
    assert shard.state.groups == {}


def test_a_stable_group_keeps_what_it_reads_and_loses_the_rest(shard):
    shard.commit(1)
    shard.commit(1, topic="b")
    ids, generation = shard.stable(1, protocols={"range": subscription(["a"])})
    keep(shard, lambda: shard.classic_beat(ids[0], generation), 12 * MINUTE)
    assert offsets(shard) == {("a", 0)}


def test_a_group_whose_topics_are_unknown_keeps_everything(shard):
    shard.commit(1)
    ids, generation = shard.stable(1, protocol_type="connect")
    keep(shard, lambda: shard.classic_beat(ids[0], generation), 12 * MINUTE)
    assert offsets(shard) == {("a", 0)}


def test_a_consumer_group_keeps_what_it_reads_and_loses_the_rest(shard):
    shard.commit(1)
    shard.commit(1, topic="b")
    shard.beat("m1")
    keep(shard, lambda: shard.beat("m1", 2), 12 * MINUTE)
    assert offsets(shard) == {("a", 0)}
    shard.beat("m1", -1)
    shard.advance(2 * MINUTE)
    assert shard.state.groups == {}


def test_an_offset_may_have_an_end_of_its_own(shard):
    shard.commit(1, version=2, retention_time_ms=3 * MINUTE)
    shard.advance(3 * MINUTE)
    assert offsets(shard) == set()


def test_an_empty_group_without_offsets_goes(shard):
    ids, _ = shard.stable(1)
    shard.leave(*ids)
    shard.advance(MINUTE)
    assert shard.state.groups == {}


def test_a_group_that_somebody_is_about_to_join_stays(shard):
    shard.advance(MINUTE - 1_000)
    member = shard.join().member_id
    shard.advance(2_000)
    assert isinstance(shard.join(member), int)


def test_many_groups_are_looked_at_a_part_at_a_time(shard):
    for number in range(1_200):
        shard.commit(1, group=f"g{number}")
    steps = []
    real = shard.machine.on_timer
    shard.machine.on_timer = lambda key, now_ms: steps.append(real(key, now_ms)) or steps[-1]
    shard.advance(10 * MINUTE)
    assert shard.state.groups == {}
    assert max(len(step.records) for step in steps) <= 502
    shard.advance(MINUTE)
    assert steps[-1].records == ()
