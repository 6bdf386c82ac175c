"""Plans that balance a cluster: few moves, even brokers, and no rack with more of a partition than it had to have."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kavka.cli.balance import TOLERANCE, Held, balanced
from kavka.cli.output import CommandError
from kavka.client import TopicPartition


def held(index: int, *replicas: int, size: int = 100, load: float = 0.0) -> Held:
    return Held(TopicPartition("t", index), replicas, size, load)


def drawn(chance: random.Random, brokers: int, partitions: int, copies: int = 3) -> list[Held]:
    ids = range(1, brokers + 1)
    return [
        held(index, *chance.sample(ids, copies), size=chance.randrange(1, 100), load=chance.random())
        for index in range(partitions)
    ]


def test_what_is_even_stays_as_it_is() -> None:
    plan = balanced(
        [held(index, *(1 + (index + step) % 3 for step in range(2))) for index in range(6)], dict.fromkeys((1, 2, 3))
    )
    assert plan.moves == {}
    assert plan.unevenness == pytest.approx(0)


def test_a_broker_that_leaves_holds_nothing_and_nobody_holds_a_partition_twice() -> None:
    plan = balanced([held(index, 1, 2, 3) for index in range(10)], dict.fromkeys(range(1, 5)), leaving=[2])
    assert all(sorted(brokers) == [1, 3, 4] for brokers in plan.replicas.values())
    assert Counter(brokers[0] for brokers in plan.replicas.values()).most_common()[-1][1] >= 3
    with pytest.raises(CommandError, match="t-0 has 3 replicas, which 2 nodes cannot hold"):
        balanced([held(0, 1, 2, 3)], dict.fromkeys((1, 2, 3)), leaving=[3])


def test_a_new_broker_gets_its_share_and_no_more_is_moved_than_that() -> None:
    before = [held(index, *(1 + (index + step) % 3 for step in range(2))) for index in range(30)]
    plan = balanced(before, dict.fromkeys((1, 2, 3, 4)))
    count = Counter(broker for brokers in plan.replicas.values() for broker in brokers)
    assert count[4] in (14, 15, 16)
    gained = sum(len(set(after) - set(first)) for first, after in plan.moves.values())
    assert gained <= 16


def test_a_large_partition_weighs_more_than_small_ones() -> None:
    plan = balanced(
        [held(0, 1, size=1000), *(held(index, 1, size=10) for index in range(1, 40))], dict.fromkeys((1, 2))
    )
    beside = next(brokers for tp, brokers in plan.replicas.items() if tp.partition == 0)
    count = Counter(broker for brokers in plan.replicas.values() for broker in brokers)
    assert count[beside[0]] < count[3 - beside[0]]


@pytest.mark.parametrize("seed", range(20))
def test_any_cluster_becomes_even_and_no_rack_gets_more_of_a_partition_than_it_need_have(seed: int) -> None:
    chance = random.Random(seed)
    racks = {broker: None if seed % 2 else "abc"[broker % 3] for broker in range(1, 7)}
    before = drawn(chance, 6, 60)
    leaving = [chance.randrange(1, 7)] if seed % 2 else []
    plan = balanced(before, racks, leaving)
    assert plan.unevenness <= TOLERANCE
    assert not any(broker in leaving for brokers in plan.replicas.values() for broker in brokers)
    crowds = {one.tp: Counter(racks[broker] for broker in one.replicas) for one in before}
    for tp, brokers in plan.replicas.items():
        assert len(set(brokers)) == 3
        if seed % 2 == 0:
            assert max(Counter(racks[broker] for broker in brokers).values()) <= max(crowds[tp].values())
    led = Counter(brokers[0] for brokers in plan.replicas.values())
    assert max(led.values()) - min(led.values()) <= 3


def test_racks_come_before_evenness() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "c"}
    plan = balanced([held(index, 1, 2, 3) for index in range(8)], racks)
    assert all({racks[broker] for broker in brokers} == {"a", "b", "c"} for brokers in plan.replicas.values())
    assert Counter(broker for brokers in plan.replicas.values() for broker in brokers)[4] == 4
