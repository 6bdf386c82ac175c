"""Streams groups of many tasks: their assignment is worked out bit by bit."""

from __future__ import annotations

import pytest
from coordinator.shards import GROUP
from coordinator.streams.play import StreamsShard, subtopology, told, topology

from kavka.coordinator.assignors.sticky import Sharing, SubtopologySpec, TaskMember, assign_stickily
from kavka.coordinator.streams.topology import StreamsStatus

WIDE = topology(subtopology("0", ["wide"], changelogs=["log"]))


def targets(shard):
    return {id_: (found.active, found.standby) for id_, found in shard.state.groups[GROUP].targets.items()}


@pytest.fixture
def large():
    return StreamsShard({"wide": 600, "log": 600}, group_streams_num_standby_replicas=1)


def test_a_large_assignment_is_worked_out_bit_by_bit(large):
    reply = large.streams("m1", topology=WIDE)
    bits = 0
    while targets(large) == {}:
        assert (large.status(reply), told(reply.active_tasks or [])) == ([StreamsStatus.ASSIGNMENT_DELAYED], {})
        reply = large.streams("m1", 1)
        assert large.assign_a_bit()
        bits += 1
    assert bits > 3
    assert not large.assign_a_bit()
    reply = large.streams("m1", 1)
    assert (large.status(reply), told(reply.active_tasks)) == ([], {"0": list(range(600))})
    assert large.loaded().state == large.state


def test_a_large_assignment_begins_anew_when_the_group_changes(large):
    large.streams("m1", topology=WIDE)
    large.assign_a_bit()
    large.streams("m2", topology=WIDE)
    while large.assign_a_bit():
        pass
    members = {id_: TaskMember(f"p-{id_}", {}, {}) for id_ in ("m1", "m2")}
    found = assign_stickily(members, {"0": SubtopologySpec(600, True)}, 1)
    assert targets(large) == {id_: (given.active, given.standby) for id_, given in found.items()}
    assert large.state.groups[GROUP].assignment_epoch == large.state.groups[GROUP].epoch == 3


def test_a_large_assignment_ends_when_nobody_waits_for_it(large):
    large.streams("m1", topology=WIDE)
    large.assign_a_bit()
    large.streams("m1", -1)
    assert large.assign_a_bit()
    assert not large.assign_a_bit()
    assert targets(large) == {}


def test_those_who_gather_wait_for_a_large_assignment_too():
    shard = StreamsShard({"wide": 600}, group_streams_initial_rebalance_delay_ms=500)
    shard.streams("m1", topology=topology(subtopology("0", ["wide"])))
    shard.advance(500)
    reply = shard.streams("m1", 1)
    assert (shard.status(reply), told(reply.active_tasks)) == ([], {"0": list(range(600))})


def test_what_members_had_is_looked_at_bit_by_bit_too():
    members = {"m": TaskMember("p", {"0": frozenset(range(600))}, {})}
    steps = Sharing(members, {"0": SubtopologySpec(600, True)}, 0).steps()
    assert sum(1 for _ in steps) == 2 * 600
