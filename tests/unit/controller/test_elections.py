"""Electing leaders, by request and from time to time."""

from __future__ import annotations

import pytest

from kavka.controller import elections
from kavka.controller.brokers import Heartbeat
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.metadata.image.topics import NO_LEADER
from kavka.model.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

PREFERRED, UNCLEAN = 0, 1
TOPIC_A = ConfigResource(ResourceType.TOPIC, "a")


@pytest.fixture
def moved(three):
    """A partition whose preferred leader was away and is in sync again, while the second leads."""
    three.topic("a", assignments=[(0, (1, 2, 3))])
    three.beat(1, want_fence=True)
    three.beat(1)
    assert three.partition("a").leader == 2
    three.in_sync("a", 2, 3, 1)
    return three


def kinds(outcomes):
    return [(name, [(index, error and type(error)) for index, error in rows]) for name, rows in outcomes]


def test_a_preferred_leader_leads_again(moved):
    assert moved.elect_leaders(PREFERRED, [("a", [0])]) == [("a", [(0, None)])]
    after = moved.partition("a")
    assert (after.leader, after.leader_epoch, after.isr) == (1, 2, (2, 3, 1))
    assert kinds(moved.elect_leaders(PREFERRED, [("a", [0])])) == [("a", [(0, ElectionNotNeeded)])]


def test_what_is_not_there_is_unknown(moved):
    unknown = UnknownTopicOrPartition
    assert kinds(moved.elect_leaders(PREFERRED, [("a", [9]), ("b", [0])])) == [
        ("a", [(9, unknown)]),
        ("b", [(0, unknown)]),
    ]


def test_a_preferred_leader_that_is_not_in_sync_or_not_there_cannot_lead(moved):
    moved.in_sync("a", 2, 3)
    assert kinds(moved.elect_leaders(PREFERRED, [("a", [0])])) == [("a", [(0, PreferredLeaderNotAvailable)])]
    moved.in_sync("a", 2, 3, 1)
    moved.beat(1, want_fence=True)
    assert kinds(moved.elect_leaders(PREFERRED, [("a", [0])])) == [("a", [(0, PreferredLeaderNotAvailable)])]


def test_of_all_partitions_only_those_that_need_an_election_are_told(moved):
    moved.topic("b", assignments=[(0, (3, 1)), (1, (2, 1))])
    assert sorted(moved.elect_leaders(PREFERRED, None)) == [("a", [(0, None)]), ("b", [])]
    assert moved.partition("a").leader == 1


def test_a_partition_named_twice_is_elected_once(moved):
    (outcome,) = moved.elect_leaders(PREFERRED, [("a", [0, 0])])
    assert kinds([outcome]) == [("a", [(0, None), (0, ElectionNotNeeded)])]
    assert moved.partition("a").leader_epoch == 2


def test_an_unclean_election_is_for_partitions_without_a_leader_and_may_lose_records(three):
    three.topic("a", assignments=[(0, (1, 2))])
    assert kinds(three.elect_leaders(UNCLEAN, [("a", [0])])) == [("a", [(0, ElectionNotNeeded)])]
    three.in_sync("a", 1)
    three.beat(1, want_fence=True)
    assert three.partition("a").leader == NO_LEADER
    three.beat(2, want_fence=True)
    assert kinds(three.elect_leaders(UNCLEAN, [("a", [0])])) == [("a", [(0, EligibleLeadersNotAvailable)])]
    three.beat(2)
    assert three.partition("a").leader == NO_LEADER
    assert three.elect_leaders(UNCLEAN, [("a", [0])]) == [("a", [(0, None)])]
    after = three.partition("a")
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (2, (2,), (), 1)


def test_there_are_two_types_of_elections(moved):
    with pytest.raises(InvalidRequest):
        moved.elect_leaders(2, [("a", [0])])


# -- from time to time -------------------------------------------------------------------------------


def due(ledger):
    """Let the time of the next appointment come."""
    ledger.now_ms = max(ledger.now_ms, ledger.machine.next_deadline_ms())
    for id_ in ledger.image.cluster.brokers:
        ledger.beat(id_)
    return ledger.tick(ledger.now_ms)


def settled(ledger):
    """Past what a controller does first."""
    ledger.tick(ledger.now_ms)
    return ledger


def test_leaders_go_back_to_where_they_are_preferred_after_the_interval(moved):
    settled(moved)
    started = moved.now_ms
    while moved.partition("a").leader == 2:
        assert moved.now_ms < started + 300_000
        due(moved)
    assert (moved.partition("a").leader, moved.now_ms) == (1, started + 300_000)


def test_leaders_stay_where_they_are_when_that_is_wanted(ledgers):
    ledger = ledgers(auto_leader_rebalance_enable=False)
    for id_ in (1, 2):
        ledger.broker(id_)
    ledger.topic("a", assignments=[(0, (1, 2))])
    ledger.beat(1, want_fence=True)
    ledger.beat(1)
    ledger.in_sync("a", 2, 1)
    for _ in range(200):
        due(ledger)
    assert ledger.partition("a").leader == 2


def test_many_leaders_go_back_in_several_steps(three, monkeypatch):
    monkeypatch.setattr(elections, "MAX_ELECTIONS", 2)
    monkeypatch.setattr("kavka.controller.periodic.MAX_ELECTIONS", 2)
    three.topic("a", assignments=[(index, (1, 2)) for index in range(5)])
    three.beat(1, want_fence=True)
    three.beat(1)
    for index in range(5):
        three.in_sync("a", 2, 1, index=index)
    settled(three)
    three.now_ms += 300_000
    for id_ in (1, 2, 3):
        three.beat(id_)
    steps = []
    while three.machine.next_deadline_ms() <= three.now_ms:
        before = len(three.log)
        three.tick(three.now_ms)
        steps.append(len(three.log) - before)
    assert steps == [2, 2, 1]


def test_a_topic_that_may_lose_records_gets_a_leader_in_time(three):
    three.topic("a", assignments=[(0, (1, 2))])
    three.in_sync("a", 1)
    three.beat(1, want_fence=True)
    three.unregister_broker(1)
    settled(three)
    three.incremental_alter_configs({TOPIC_A: {"unclean.leader.election.enable": (0, "true")}})
    assert three.partition("a").leader == NO_LEADER
    started = three.now_ms
    while three.partition("a").leader == NO_LEADER:
        assert three.now_ms < started + 300_000
        due(three)
    assert (three.partition("a").leader, three.now_ms) == (2, started + 300_000)


def test_a_new_controller_finishes_what_the_last_one_began(three):
    """Unfencing is written before the elections it allows; a controller may be cut off in between."""
    three.topic("a", assignments=[(0, (1,))])
    three.beat(1, want_fence=True)
    decided = three.machine.heartbeat(beat_of(three, 1), three.now_ms)
    assert len(decided.records) == 2
    three.write(type(decided)(None, decided.records[:1]))
    assert three.partition("a").leader == NO_LEADER
    three.activate([], three.now_ms)
    assert three.machine.next_deadline_ms() == three.now_ms
    three.tick(three.now_ms)
    assert three.partition("a").leader == 1


def beat_of(ledger, id_):
    return Heartbeat(id_, ledger.epoch(id_), ledger.image.offset)
