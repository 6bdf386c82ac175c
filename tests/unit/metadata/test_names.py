"""Topic names as Kafka allows them."""

from __future__ import annotations

import pytest

from kavka.metadata.names import (
    collision_key,
    is_internal,
    is_valid_topic_name,
    is_write_protected,
    may_write,
    validate_topic_name,
)
from kavka.model.errors import InvalidTopicException


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "_", "-", "x" * 249])
def test_these_names_are_allowed(name):
    validate_topic_name(name)
    assert is_valid_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a:b", "名"])
def test_these_names_are_refused_with_code_17(name):
    with pytest.raises(InvalidTopicException) as caught:
        validate_topic_name(name)
    assert caught.value.code == 17
    assert caught.value.message
    assert not is_valid_topic_name(name)


def test_names_collide_when_metrics_would_write_them_alike():
    assert collision_key("a.b_c") == collision_key("a_b.c") == "a_b_c"
    assert collision_key("a-b") is None


def test_only_the_coordinators_topics_are_internal():
    assert is_internal("__consumer_offsets")
    assert not is_internal("__cluster_metadata")
    assert not is_internal("orders")


@pytest.mark.parametrize(
    ("topic", "writer"),
    [
        ("__consumer_offsets", "__admin_client"),
        ("__transaction_state", "__admin_client"),
        ("__share_group_state", "__admin_client"),
        ("__kavka_audit", "__kavka_audit_client_1"),
        ("__remote_log_metadata", "__remote_log_metadata_client_1_producer"),
    ],
)
def test_topics_that_only_brokers_write(topic, writer):
    assert is_write_protected(topic)
    assert may_write(writer, topic)
    assert not may_write("orders-app", topic)


@pytest.mark.parametrize("topic", ["orders", "_schemas", "__cluster_metadata"])
def test_other_topics_are_for_clients(topic):
    assert not is_write_protected(topic)
