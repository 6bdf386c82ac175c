"""In whatever order messages, crashes and elections come: no acknowledged record is lost, followers are prefixes."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent))

from world import World

PROGRAMS = st.lists(st.integers(0, 2**16), min_size=200, max_size=1500)


def chooser(program):
    """Choices by a list of numbers; the first option when it is used up."""
    left = iter(program)
    return lambda options: next(left, 0) % options


@given(PROGRAMS)
@settings(max_examples=40, deadline=None)
def test_no_acknowledged_record_is_lost_and_followers_are_prefixes(program):
    world = World(chooser(program))
    for _ in range(len(program) // 3):
        world.step()


def run(seed, steps=1500, **faults):
    rng = random.Random(seed)
    world = World(lambda options: rng.randrange(options), **faults)
    for _ in range(steps):
        world.step()
    return world


def test_long_runs_acknowledge_much_and_elect_often():
    worlds = [run(seed) for seed in range(10)]
    assert sum(len(world.acked) for world in worlds) > 300
    assert sum(world.view.leader_epoch for world in worlds) > 40


def caught(**faults):
    """How many of some runs with a planted fault are seen to break something."""
    broken = 0
    for seed in range(10):
        try:
            run(seed, **faults)
        except AssertionError:
            broken += 1
    return broken


def test_a_leader_that_acknowledges_before_its_followers_have_it_is_caught():
    assert caught(ack_early=True)


def test_a_follower_that_does_not_cut_what_its_leader_lacks_copies_nothing_any_more():
    healthy, faulty = [[run(seed, keep_tails=keep) for seed in range(10)] for keep in (False, True)]
    assert sum(len(one.acked) for one in faulty) < sum(len(one.acked) for one in healthy)
