"""Changing configurations: operations, checks, codes."""

from __future__ import annotations

import pytest

from kavka.controller.configs import Op
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.metadata.records.topics import ClearElrRecord
from kavka.model.errors import KafkaError

TOPIC = ConfigResource(ResourceType.TOPIC, "a")
CLUSTER = ConfigResource(ResourceType.BROKER, "")
BROKER = ConfigResource(ResourceType.BROKER, "1")
GROUP = ConfigResource(ResourceType.GROUP, "g")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "m")


@pytest.fixture
def node(node):
    node.topic("a")
    return node


def code(outcome):
    return outcome.code if isinstance(outcome, KafkaError) else 0


def change(node, resource, *changes, **how):
    keys = {name: (op, value) for name, op, value in changes}
    return node.incremental_alter_configs({resource: keys}, **how)[resource]


def test_keys_are_set_appended_to_subtracted_from_and_deleted(node):
    assert change(node, TOPIC, ("cleanup.policy", Op.APPEND, "compact"), ("retention.ms", Op.SET, "5")) is None
    assert node.image.configs.of(TOPIC) == {"cleanup.policy": "delete,compact", "retention.ms": "5"}
    assert change(node, TOPIC, ("cleanup.policy", Op.SUBTRACT, "delete"), ("retention.ms", Op.DELETE, None)) is None
    assert node.image.configs.of(TOPIC) == {"cleanup.policy": "compact"}
    assert change(node, TOPIC, ("cleanup.policy", Op.APPEND, "compact")) is None
    assert node.image.configs.of(TOPIC) == {"cleanup.policy": "compact"}


def test_a_value_that_is_there_already_is_not_written_again_except_for_brokers(node):
    change(node, TOPIC, ("retention.ms", Op.SET, "5"))
    change(node, CLUSTER, ("log.cleaner.threads", Op.SET, "2"))
    before = len(node.log)
    change(node, TOPIC, ("retention.ms", Op.SET, "5"))
    assert len(node.log) == before
    change(node, CLUSTER, ("log.cleaner.threads", Op.SET, "2"))
    assert len(node.log) == before + 1


@pytest.mark.parametrize(
    ("resource", "name", "op", "value", "expected"),
    [
        (TOPIC, "retention.ms", Op.APPEND, "5", 40),
        (TOPIC, "no.such", Op.SET, "5", 40),
        (TOPIC, "no.such", Op.APPEND, "5", 40),
        (TOPIC, "retention.ms", Op.SET, "x", 40),
        (TOPIC, "retention.ms", 9, "5", 42),
        (TOPIC, "cleanup.policy", Op.APPEND, "burn", 40),
        (TOPIC, "leader.replication.throttled.replicas", Op.SET, "0:1," * 9000 + "0:1", 40),
        (ConfigResource(2, "nobody"), "retention.ms", Op.SET, "5", 3),
        (ConfigResource(2, ""), "retention.ms", Op.SET, "5", 42),
        (ConfigResource(2, "a b"), "retention.ms", Op.SET, "5", 17),
        (ConfigResource(4, "7"), "log.cleaner.threads", Op.SET, "2", 102),
        (ConfigResource(4, "x"), "log.cleaner.threads", Op.SET, "2", 42),
        (ConfigResource(4, "-1"), "log.cleaner.threads", Op.SET, "2", 42),
        (ConfigResource(32, ""), "consumer.session.timeout.ms", Op.SET, "45000", 42),
        (GROUP, "no.such", Op.SET, "5", 40),
        (GROUP, "consumer.session.timeout.ms", Op.SET, "50000", 0),
        (ConfigResource(16, ""), "interval.ms", Op.SET, "500", 42),
        (METRICS, "interval.ms", Op.SET, "5", 42),
        (METRICS, "no.such", Op.SET, "5", 42),
        (METRICS, "metrics", Op.APPEND, "org.apache.kafka.producer.", 0),
        (ConfigResource(8, "1"), "x", Op.SET, "y", 42),
        (ConfigResource(99, "1"), "x", Op.SET, "y", 42),
        (CLUSTER, "min.insync.replicas", Op.DELETE, None, 40),
        (CLUSTER, "min.insync.replicas", Op.SET, "2", 0),
        (BROKER, "min.insync.replicas", Op.SET, "2", 40),
        (BROKER, "cordoned.log.dirs", Op.SET, "/d", 0),
        (TOPIC, "min.insync.replicas", Op.SET, "2", 0),
    ],
)
def test_every_refusal_has_kafkas_code_and_says_why(node, resource, name, op, value, expected):
    before = node.image
    outcome = change(node, resource, (name, op, value))
    assert code(outcome) == expected
    if expected:
        assert outcome.message
        assert node.image is before


def test_old_metadata_versions_have_no_cordoned_directories(ledgers):
    old = ledgers(metadata_version=29)
    old.broker()
    assert code(change(old, BROKER, ("cordoned.log.dirs", Op.SET, "/d"))) == 40


def test_changing_min_insync_replicas_forgets_who_was_eligible(node):
    change(node, TOPIC, ("min.insync.replicas", Op.SET, "2"))
    assert node.log[-1] == ClearElrRecord(topic_name="a")
    change(node, CLUSTER, ("min.insync.replicas", Op.SET, "2"))
    assert node.log[-1] == ClearElrRecord(topic_name="")


def test_each_resource_is_changed_or_refused_by_itself(node):
    outcomes = node.incremental_alter_configs(
        {TOPIC: {"retention.ms": (Op.SET, "x")}, GROUP: {"consumer.session.timeout.ms": (Op.SET, "50000")}}
    )
    assert [code(outcomes[resource]) for resource in (TOPIC, GROUP)] == [40, 0]


def test_a_resource_keeps_all_its_keys_when_one_is_refused(node):
    assert code(change(node, TOPIC, ("retention.ms", Op.SET, "5"), ("segment.ms", Op.SET, "0"))) == 40
    assert node.image.configs.of(TOPIC) == {}


def test_validating_only_writes_nothing(node):
    before = node.image
    assert change(node, TOPIC, ("retention.ms", Op.SET, "5"), validate_only=True) is None
    assert node.alter_configs({TOPIC: {"retention.ms": "5"}}, validate_only=True) == {TOPIC: None}
    assert node.image is before


def test_the_older_api_replaces_the_whole_configuration(node):
    change(node, TOPIC, ("retention.ms", Op.SET, "5"), ("segment.ms", Op.SET, "7"))
    assert node.alter_configs({TOPIC: {"retention.ms": "6"}}) == {TOPIC: None}
    assert node.image.configs.of(TOPIC) == {"retention.ms": "6"}
    assert code(node.alter_configs({TOPIC: {"retention.ms": "x"}})[TOPIC]) == 40
    assert code(node.alter_configs({ConfigResource(2, "nobody"): {}})[ConfigResource(2, "nobody")]) == 3


def test_the_older_api_may_not_drop_the_clusters_min_insync_replicas(node):
    assert code(node.alter_configs({CLUSTER: {}})[CLUSTER]) == 40


def test_a_dynamic_default_of_the_cluster_counts_for_a_topics_validation(node):
    assert change(node, CLUSTER, ("log.cleaner.max.compaction.lag.ms", Op.SET, "100")) is None
    assert code(change(node, TOPIC, ("min.compaction.lag.ms", Op.SET, "200"))) == 40
