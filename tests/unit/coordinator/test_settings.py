"""The settings of nodes and groups."""

from __future__ import annotations

import pytest

from kavka.coordinator.settings import CoordinatorSettings, GroupSettings
from kavka.model.settings import broker_values


def settings(**texts):
    return CoordinatorSettings(broker_values({name.replace("_", "."): text for name, text in texts.items()}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("range", ("range",)),
        ("range,uniform,range", ("range", "uniform")),
        ("org.apache.kafka.coordinator.group.assignor.RangeAssignor", ("range",)),
        ("com.example.Mine,uniform", ("uniform",)),
        ("com.example.Mine", ("uniform", "range")),
    ],
)
def test_assignors_are_those_that_we_have(text, expected):
    assert settings(group_consumer_assignors=text).assignors == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("bidirectional", (True, True, True)),
        ("UPGRADE", (True, False, True)),
        ("downgrade", (False, True, True)),
        ("Disabled", (False, False, False)),
    ],
)
def test_the_migration_policy_says_which_way_groups_may_go(policy, expected):
    found = settings(group_consumer_migration_policy=policy)
    assert (found.may_upgrade, found.may_downgrade, found.may_migrate) == expected


def test_a_group_without_settings_goes_by_the_nodes():
    assert settings(group_consumer_session_timeout_ms="50000").of_group({}) == GroupSettings(50_000, 5_000, 1_000)


def test_a_groups_own_settings_are_bounded_and_must_be_numbers():
    texts = {
        "consumer.session.timeout.ms": "99999999",
        "consumer.heartbeat.interval.ms": "soon",
        "consumer.assignment.interval.ms": "0",
        "share.session.timeout.ms": "1",
    }
    assert settings().of_group(texts) == GroupSettings(60_000, 5_000, 0)


def test_what_the_node_says_is_bounded_too():
    interval = settings(group_consumer_assignment_interval_ms="15001")  # the cluster's, from before the limit
    assert interval.of_group({}).assignment_interval_ms == 15_000
