"""Where replicas go."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.controller.placement import UsableBroker, place
from kavka.model.errors import InvalidReplicationFactor


def brokers(*racks, fenced=()):
    return [UsableBroker(id_, rack, id_ in fenced) for id_, rack in enumerate(racks)]


def first(low, high):
    return low


def test_without_racks_partitions_start_one_broker_further_each_time():
    assert place(brokers(None, None, None), 3, 2, first) == [(0, 1), (1, 2), (2, 0)]


def test_racks_take_turns():
    placed = place(brokers("a", "a", "b", "b", "c", "c"), 6, 3, first)
    assert placed[0] == (0, 2, 4)
    for replicas in placed:
        assert len({broker // 2 for broker in replicas}) == 3


def test_chance_decides_where_the_first_partition_starts():
    starts = {place(brokers(*"abc"), 1, 1, random.Random(seed).randint)[0] for seed in range(50)}
    assert starts == {(0,), (1,), (2,)}


def test_fenced_brokers_are_used_last_and_never_lead():
    for seed in range(30):
        for replicas in place(brokers(*"aabb", fenced=(0, 2)), 4, 2, random.Random(seed).randint):
            assert set(replicas) == {1, 3}
        for replicas in place(brokers(*"aabb", fenced=(0, 2)), 4, 4, random.Random(seed).randint):
            assert replicas[0] in (1, 3)
            assert len(set(replicas)) == 4


def test_a_rack_of_fenced_brokers_only_is_passed_over_for_the_leader():
    for seed in range(20):
        for replicas in place(brokers(*"ab", fenced=(0,)), 3, 2, random.Random(seed).randint):
            assert replicas == (1, 0)


@pytest.mark.parametrize(
    ("usable", "replicas"),
    [(brokers(None), 2), (brokers(None), 0), ([], 1), (brokers(None, None, fenced=(0, 1)), 1)],
)
def test_what_cannot_be_placed_is_an_invalid_replication_factor(usable, replicas):
    with pytest.raises(InvalidReplicationFactor):
        place(usable, 1, replicas, first)


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9), st.integers(1, 30), st.data())
def test_replicas_are_distinct_and_even(racks, partitions, data):
    replicas = data.draw(st.integers(1, len(racks)))
    seed = data.draw(st.integers(0, 999))
    placed = place(brokers(*racks), partitions, replicas, random.Random(seed).randint)
    assert len(placed) == partitions
    names = Counter(racks)
    for replica_ids in placed:
        assert len(set(replica_ids)) == replicas
        used = Counter(racks[broker] for broker in replica_ids)
        # as even over racks as their sizes allow: no rack gets a second replica before each had one
        assert len(used) == min(len(names), replicas)
    if len(names) == 1 and partitions % len(racks) == 0:
        led = Counter(replica_ids[0] for replica_ids in placed)
        assert max(led.values()) == min(led.values())
