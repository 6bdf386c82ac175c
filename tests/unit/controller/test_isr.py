"""AlterPartition: every reason to refuse, and what is changed where there is none."""

from __future__ import annotations

import pytest

from kavka.controller.isr import InSync, IsrRequest
from kavka.controller.reassignment import Reassign
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.metadata.image.topics import LeaderRecoveryState
from kavka.model.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.types import Uuid

TOPIC_A = ConfigResource(ResourceType.TOPIC, "a")


@pytest.fixture
def led(three):
    """A partition on three brokers, led by the first."""
    three.topic("a", assignments=[(0, (1, 2, 3))])
    return three


def test_a_leader_shrinks_and_grows_its_isr_and_keeps_its_epoch(led):
    after = led.in_sync("a", 1, 2)
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1, 2), 1, 0, 1)
    assert led.partition("a") == after
    assert led.in_sync("a", 1, 2, 3).isr == (1, 2, 3)


def test_asking_for_what_is_writes_nothing(led):
    before = len(led.log)
    assert led.in_sync("a", 1, 2, 3) == led.partition("a")
    assert len(led.log) == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"topic_id": Uuid(b"?" * 16)}, UnknownTopicId),
        ({"topic_id": Uuid.ZERO}, UnknownTopicId),
        ({"partition": 1}, UnknownTopicOrPartition),
        ({"leader_epoch": 1}, NotController),
        ({"partition_epoch": 1}, NotController),
        ({"leader_epoch": -1}, FencedLeaderEpoch),
        ({"partition_epoch": -1}, InvalidUpdateVersion),
        ({"isr": (InSync(1), InSync(4))}, InvalidRequest),
        ({"isr": (InSync(1), InSync(1))}, InvalidRequest),
        ({"isr": (InSync(2), InSync(3))}, InvalidRequest),
        ({"isr": ()}, InvalidRequest),
        ({"recovery": 1}, InvalidRequest),
        ({"recovery": 1, "isr": (InSync(1),)}, InvalidRequest),
        ({"recovery": 7}, InvalidRequest),
    ],
)
def test_what_a_leader_cannot_ask_for(led, changes, error):
    assert type(led.in_sync("a", 1, 2, **changes)) is error
    assert led.partition("a").isr == (1, 2, 3)


def test_only_the_leader_changes_the_isr(led):
    assert type(led.in_sync("a", 1, 2, sender=2)) is InvalidRequest


def test_a_broker_of_another_epoch_changes_nothing_at_all(led):
    with pytest.raises(StaleBrokerEpoch):
        led.alter_partition(1, led.epoch(1) + 1, [])
    with pytest.raises(StaleBrokerEpoch):
        led.alter_partition(9, 0, [])


def test_the_second_of_two_changes_in_one_request_comes_too_late(led):
    three = led
    three.topic("b", assignments=[(0, (1, 2, 3))])
    topic = three.image.topics.by_name["b"]
    request = IsrRequest(topic.id, 0, 0, 0, (InSync(1),))
    first, second = three.alter_partition(1, three.epoch(1), [request, request])
    assert first.isr == (1,)
    assert type(second) is InvalidUpdateVersion


@pytest.mark.parametrize("how", ["fenced", "shutting down", "unregistered", "another epoch"])
def test_who_is_not_eligible_to_be_in_sync(led, how):
    led.in_sync("a", 1, 2)
    wanted = InSync(3, led.epoch(3))
    match how:
        case "fenced":
            led.beat(3, want_fence=True)
        case "shutting down":
            led.topic("b", assignments=[(0, (3, 1))])  # a broker that leads nothing may stop at once
            led.beat(3, want_shut_down=True)
            assert led.image.cluster.brokers[3].in_controlled_shutdown
        case "unregistered":
            led.unregister_broker(3)
        case "another epoch":
            wanted = InSync(3, led.epoch(3) - 1)
    assert type(led.in_sync("a", 1, 2, wanted)) is IneligibleReplica
    assert led.partition("a").isr == (1, 2)


def test_broker_epochs_that_fit_or_are_not_known_are_accepted(led):
    led.in_sync("a", 1)
    assert led.in_sync("a", 1, InSync(2, led.epoch(2)), InSync(3, -1)).isr == (1, 2, 3)


def test_a_leader_that_recovers_is_alone_in_sync_until_it_has_recovered(ledgers):
    ledger = ledgers(unclean_leader_election_enable=True)
    for id_ in (1, 2):
        ledger.broker(id_)
    ledger.topic("a", assignments=[(0, (1, 2))])
    ledger.in_sync("a", 1)
    ledger.beat(1, want_fence=True)
    now = ledger.partition("a")
    assert (now.leader, now.leader_recovery_state) == (2, LeaderRecoveryState.RECOVERING)
    ledger.beat(1)
    assert type(ledger.in_sync("a", 2, 1, recovery=LeaderRecoveryState.RECOVERING)) is InvalidRequest
    assert ledger.in_sync("a", 2, recovery=LeaderRecoveryState.RECOVERING) == now
    after = ledger.in_sync("a", 2, 1, recovery=LeaderRecoveryState.RECOVERED)
    assert (after.isr, after.leader_recovery_state) == ((2, 1), LeaderRecoveryState.RECOVERED)


def test_the_isr_that_completes_a_move_away_from_the_leader_moves_the_leadership(led):
    led.broker(4, rack="r4")
    assert led.alter_reassignments([Reassign("a", 0, (4, 2, 3))]) == [None]
    answer = led.in_sync("a", 1, 2, 3, 4)
    assert type(answer) is NewLeaderElected
    after = led.partition("a")
    assert (after.leader, after.replicas, after.isr, after.adding, after.removing) == (
        4,
        (4, 2, 3),
        (2, 3, 4),
        (),
        (),
    )


def test_the_isr_that_completes_a_move_of_followers_keeps_the_leader_but_counts_its_epoch_up(led):
    led.broker(4, rack="r4")
    led.alter_reassignments([Reassign("a", 0, (1, 2, 4))])
    before = led.partition("a")
    after = led.in_sync("a", 1, 2, 3, 4)
    assert (after.leader, after.leader_epoch, after.replicas) == (1, before.leader_epoch + 1, (1, 2, 4))
    assert after.isr == (1, 2, 4)


def test_below_min_isr_a_replica_that_lags_stays_eligible_until_enough_are_in_sync(led):
    led.incremental_alter_configs({TOPIC_A: {"min.insync.replicas": (0, "2")}})
    assert led.in_sync("a", 1).elr == (2, 3)
    assert led.in_sync("a", 1, 2).elr == ()
