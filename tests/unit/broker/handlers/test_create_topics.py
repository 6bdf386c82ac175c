"""Create topics: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.create_topics import create_topics
from kavka.controller.quotas import Alteration
from kavka.model.errors import KafkaStorageError
from kavka.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


def topic(name, partitions=-1, replication=-1, assignments=(), configs=()):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in assignments],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


@pytest.fixture
def tell(ask, loop):
    def call(*topics, version=7, **more):
        request = CreateTopicsRequest(topics=list(topics), **more)
        return ask(create_topics, request, version, loop, loop.settings, loop.quotas).topics

    return call


@pytest.mark.parametrize("version", range(2, 8))
def test_a_created_topic_is_described(tell, loop, version):
    (row,) = tell(topic("a", 3, 1, configs=[("retention.ms", "5")]), version=version)
    assert (row.name, row.error_code, row.error_message) == ("a", 0, None)
    if version >= 5:
        assert (row.num_partitions, row.replication_factor) == (3, 1)
        settings = {config.name: (config.value, config.config_source) for config in row.configs}
        assert settings["retention.ms"] == ("5", 1)
        assert settings["segment.ms"] == ("604800000", 5)
        assert settings["min.insync.replicas"] == ("1", 3)
        assert not any(config.read_only or config.is_sensitive for config in row.configs)
    if version >= 7:
        assert row.topic_id == loop.image.topics.by_name["a"].id


def test_every_topic_has_its_own_outcome(tell, loop):
    rows = tell(
        topic("a"),
        topic("twice"),
        topic("bad name"),
        topic("b", 0),
        topic("twice", 2),
        topic("__cluster_metadata"),
        topic("c", assignments=[(0, [7])]),
    )
    codes = {row.name: row.error_code for row in rows}
    assert codes == {"a": 0, "twice": 42, "bad name": 17, "b": 37, "__cluster_metadata": 42, "c": 39}
    assert all(row.error_message for row in rows if row.error_code)
    assert all(row.configs == [] for row in rows if row.error_code)
    assert set(loop.image.topics.by_name) == {"a"}


def test_validating_only_creates_nothing(tell, loop):
    (row,) = tell(topic("a", 2), validate_only=True)
    assert (row.error_code, row.num_partitions) == (0, 2)
    assert not loop.image.topics.by_name


def test_what_refuses_the_request_is_said_of_each_topic(tell, loop):
    assert [row.error_code for row in tell(topic("a", 10_001), topic("b"))] == [44, 44]
    loop.error = KafkaStorageError("the disk is full")
    assert [(row.error_code, row.error_message) for row in tell(topic("a"))] == [(56, "the disk is full")]


def test_no_topics_are_no_rows(tell):
    assert tell() == []


@pytest.fixture
def limited(ask, loop):
    """Two partitions a second, of which 22 may be made at once."""
    alteration = Alteration((("client-id", "test"),), [("controller_mutation_rate", 2.0)])
    loop.write(loop.machine.alter_client_quotas([alteration]))

    def call(*topics, version):
        request = CreateTopicsRequest(topics=list(topics))
        response = ask(create_topics, request, version, loop, loop.settings, loop.quotas)
        return [row.error_code for row in response.topics], response.throttle_time_ms

    return call


def test_whoever_has_used_up_the_quota_for_changes_is_refused(limited, loop):
    assert limited(topic("a", 23), version=7) == ([0], 0)  # more than there is: once
    assert limited(topic("b", 1), topic("c", 1), version=7) == ([89, 89], 500)
    assert "b" not in loop.image.topics.by_name
    loop.clock.advance(500)
    assert limited(topic("b", 1), version=7) == ([0], 0)


def test_a_client_that_cannot_be_told_so_only_has_to_wait(limited, loop):
    assert limited(topic("a", 23), version=5) == ([0], 500)
    assert limited(topic("b", 1), version=5) == ([0], 1000)


def test_what_cannot_be_created_costs_nothing(limited):
    assert limited(topic("a", 22), version=7) == ([0], 0)
    assert limited(topic("bad name", 9), topic("a", 9), version=7) == ([17, 36], 0)
    assert limited(topic("b", 1), version=7) == ([0], 0)
