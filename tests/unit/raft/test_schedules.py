"""Random schedules: messages delayed, lost and doubled, nodes cut off and killed; what raft promises must hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raft_world import World


def play(seed: int, voters: int, observers: int, steps: int, **options) -> World:
    membership = options.pop("membership", False)
    world = World(seed, voters, observers, **options)
    for _ in range(steps):
        world.run_for(world.random.choice((1, 10, 100, 1000, 4000)))
        world.mischief(membership=membership)
    world.settle()
    return world


@settings(max_examples=30)
@given(st.integers(0, 1 << 32), st.integers(3, 5))
def test_replicas_agree_whatever_happens(seed, voters):
    world = play(seed, voters, 1, 40)
    assert world.elections > 0


@settings(max_examples=20)
@given(st.integers(0, 1 << 32))
def test_replicas_agree_while_voters_come_and_go(seed):
    world = play(seed, 3, 2, 60, membership=True)
    assert world.elections > 0


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
def test_quorums_of_any_size_commit(voters):
    world = World(7, voters, 1)
    world.settle()
    assert len(world.committed) >= 2
