"""Partitions that have lost all who were in sync: who is asked, and whose log wins."""

from __future__ import annotations

import pytest

from kavka.controller.recovery import WINDOW_MS, LogInfo, Strategy, longest
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.metadata.image.topics import NO_LEADER

TOPIC_A = ConfigResource(ResourceType.TOPIC, "a")
SET = 0


@pytest.mark.parametrize(
    ("logs", "winner"),
    [
        ({1: (3, 10), 2: (3, 11)}, 2),
        ({1: (4, 1), 2: (3, 99)}, 1),
        ({2: (3, 10), 1: (3, 10), 3: (3, 9)}, 1),
        ({7: (-1, 0)}, 7),
    ],
)
def test_the_latest_epoch_wins_then_the_longest_log_then_the_lowest_id(logs, winner):
    assert longest({broker: LogInfo(epoch, end, 0) for broker, (epoch, end) in logs.items()}) == winner


@pytest.fixture
def stranded(three):
    """A partition on three brokers whose only one in sync is gone."""

    def make(strategy=None, **settings):
        three.topic("a", assignments=[(0, (1, 2, 3))])
        if strategy:
            three.incremental_alter_configs({TOPIC_A: {"unclean.recovery.strategy": (SET, strategy)}})
        three.in_sync("a", 1)
        three.beat(1, want_fence=True)
        assert three.partition("a").leader == NO_LEADER
        return three, (three.image.topics.by_name["a"].id, 0)

    return make


def info(end, epoch=0, leader_epoch=0):
    return LogInfo(epoch, end, leader_epoch)


def test_without_a_strategy_nobody_is_asked(stranded):
    ledger, _ = stranded()
    assert ledger.recovery_questions((), 0) is None


@pytest.mark.parametrize("strategy", ["Balanced", "aggressive"])
def test_the_others_are_asked_and_waited_for_as_long_as_the_strategy_says(stranded, strategy):
    ledger, key = stranded(strategy)
    assert ledger.recovery_questions((), 100) == {2: [key], 3: [key]}
    ledger.recover({2: {key: info(10)}, 3: {key: info(12)}}, 200)
    assert ledger.partition("a").leader == NO_LEADER  # the one that was in sync may still come back
    assert ledger.recovery_questions((), 300) == {}
    ends_at = 100 + WINDOW_MS[Strategy(strategy.lower())]
    ledger.recover({}, ends_at - 1)
    assert ledger.partition("a").leader == NO_LEADER
    ledger.recover({}, ends_at)
    after = ledger.partition("a")
    assert (after.leader, after.isr, after.leader_recovery_state) == (3, (3,), 1)
    assert ledger.recovery_questions((), ends_at) is None


def test_who_asks_for_it_waits_for_nobody_that_is_gone(stranded):
    ledger, key = stranded()
    assert ledger.recovery_questions([key], 0) == {2: [key], 3: [key]}
    ledger.recover({2: {key: info(10)}}, 1)
    assert ledger.partition("a").leader == NO_LEADER
    ledger.recover({3: {key: info(9)}}, 2)
    assert ledger.partition("a").leader == 2


def test_the_one_that_was_in_sync_leads_when_it_comes_back(stranded):
    ledger, key = stranded("Balanced")
    ledger.recovery_questions((), 0)
    ledger.beat(1)
    assert ledger.partition("a").leader == 1
    ledger.recover({2: {key: info(10)}, 3: {key: info(12)}}, 60_000)
    assert ledger.partition("a").leader == 1


def test_a_replica_that_knows_a_later_leader_stops_it(stranded):
    ledger, key = stranded("Aggressive")
    epoch = ledger.partition("a").leader_epoch
    ledger.recovery_questions((), 0)
    ledger.recover({2: {key: info(10, leader_epoch=epoch + 1)}, 3: {key: info(12, leader_epoch=epoch)}}, 60_000)
    assert ledger.partition("a").leader == NO_LEADER


def test_a_broker_that_answered_and_went_does_not_lead(stranded):
    ledger, key = stranded("Aggressive")
    ledger.recovery_questions((), 0)
    ledger.recover({2: {key: info(10)}, 3: {key: info(12)}}, 1)
    ledger.beat(3, want_fence=True)
    ledger.recover({}, 60_000)
    assert ledger.partition("a").leader == 2


def test_a_strategy_takes_the_place_of_unclean_elections(three):
    three.topic("a", assignments=[(0, (1, 2, 3))])
    both = {"unclean.recovery.strategy": (SET, "Balanced"), "unclean.leader.election.enable": (SET, "true")}
    three.incremental_alter_configs({TOPIC_A: both})
    three.in_sync("a", 1)
    three.beat(1, want_fence=True)
    assert three.partition("a").leader == NO_LEADER
