"""Whatever members do, in whatever order: no partition has two owners, and everybody gets to the end."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator.players import Classic, Cooperative, Modern, all_partitions, check_owners, settle, stay_alive
from coordinator.shards import Shard
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.consumer.state import ConsumerGroup

TOPICS: Any = (["a"], ["a", "b"], ["b"], ["a", "b", "c"], [])

PLAYERS = 5
OFTEN = ["go_on"] * 4 + ["everybody"] * 3 + ["start"] * 4 + ["beat", "work", "leave", "crash", "wait", "wait", "wait"]
SELDOM = ["subscribe", "create", "grow", "delete", "fail_over"]


@st.composite
def scripts(draw):
    """Who is there from the start, and what happens then."""
    steps = [("start", number) for number in draw(st.permutations(range(PLAYERS)))[: draw(st.integers(0, PLAYERS))]]
    for action in draw(st.lists(st.sampled_from(OFTEN * 3 + SELDOM), max_size=50)):
        match action:
            case "everybody":
                values = [draw(st.permutations(range(PLAYERS)))]
            case "subscribe":
                values = [draw(st.integers(0, PLAYERS - 1)), draw(st.sampled_from(TOPICS))]
            case "wait":
                values = [draw(st.sampled_from([0, 500, 1_100, 5_000, 20_000, 60_000]))]
            case "create" | "grow":
                values = [draw(st.sampled_from("abc")), draw(st.integers(1, 8))]
            case "delete":
                values = [draw(st.sampled_from("bc"))]
            case "fail_over":
                values = []
            case _:
                values = [draw(st.integers(0, PLAYERS - 1))]
        steps.append((action, *values))
    return steps


def play(cast, steps):
    shard = Shard({"a": 4, "b": 3}, group_initial_rebalance_delay_ms=1_000)
    group = [make(shard, f"p{number}", ["a", "b"]) for number, make in enumerate(cast)]
    for action, *values in steps:
        perform(shard, group, action, values)
        check_owners(group)
        assert shard.loaded().state == shard.state
    return shard, group


def perform(shard, group, action, values):
    by_name = shard.topics.image.topics.by_name
    match action, values:
        case "wait", [ms]:
            stay_alive(shard, group, ms)
        case "create", [name, partitions]:
            if name not in by_name:
                shard.create_topic(name, partitions)
        case "grow", [name, partitions]:
            if name in by_name and partitions > len(by_name[name].partitions):
                shard.grow_topic(name, partitions)
        case "delete", [name]:
            if name in by_name:
                shard.delete_topic(name)
                for player in group:
                    player.owned.pop(name, None)
                    getattr(player, "target", {}).pop(name, None)
        case "fail_over", []:
            shard.start()
            for player in group:  # whoever waited is answered by nobody and asks again
                if getattr(player, "waits_for", None) is not None:
                    player.waits_for = None
                    player.rejoin()
        case "everybody", [order]:
            for number in order:
                group[number].go_on()
                check_owners(group)
        case "start", [number]:
            mine = group[number]
            others = (player.instance for player in group if player.alive and mine.instance is not None)
            if not mine.alive and mine.instance not in others:
                mine.start()
        case name, [number, *more]:
            if group[number].alive:
                getattr(group[number], name)(*more)


def finish(shard, group):
    settle(shard, group)
    owned = set().union(*(player.partitions for player in group if player.alive))
    assert owned == all_partitions(shard, group)
    for player in group:
        if player.alive:
            assert {topic for topic, _ in player.partitions} <= set(player.topics)
    stored = shard.state.groups.get("g")
    if isinstance(stored, ConsumerGroup):
        assert stored.state in ("Stable", "Empty")
    assert shard.loaded().state == shard.state


def seated(kind, number):
    return lambda shard, name, topics: kind(shard, name, topics, instance=f"seat{number}")


@settings(max_examples=60, deadline=None)
@given(scripts())
def test_members_of_the_consumer_protocol(steps):
    finish(*play([Modern] * 5, steps))


@settings(max_examples=40, deadline=None)
@given(scripts())
def test_static_members(steps):
    finish(*play([*(seated(Modern, number) for number in range(3)), Modern, Modern], steps))


@pytest.mark.parametrize("kind", [Classic, Cooperative])
@settings(max_examples=40, deadline=None)
@given(steps=scripts())
def test_members_of_the_classic_protocol(kind, steps):
    finish(*play([kind] * 5, steps))


@pytest.mark.parametrize("kind", [Classic, Cooperative])
@settings(max_examples=40, deadline=None)
@given(steps=scripts())
def test_static_members_of_the_classic_protocol(kind, steps):
    finish(*play([seated(kind, 0), seated(kind, 1), kind, kind, kind], steps))


@pytest.mark.parametrize("kind", [Classic, Cooperative])
@settings(max_examples=60, deadline=None)
@given(cast=st.permutations([0, 1, 1, 0, 1]), steps=scripts())
def test_members_of_both_protocols(kind, cast, steps):
    finish(*play([kind if each else Modern for each in cast], steps))


@pytest.mark.parametrize("kind", [Classic, Cooperative])
@settings(max_examples=60, deadline=None)
@given(steps=scripts())
def test_static_members_that_change_their_protocol(kind, steps):
    seats = [seated(Modern, 0), seated(kind, 0), seated(kind, 1), seated(Modern, 1)]
    finish(*play([*seats, kind], steps))
