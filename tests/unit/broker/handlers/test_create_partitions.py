"""Create partitions: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.create_partitions import create_partitions
from kavka.controller.quotas import Alteration
from kavka.model.errors import KafkaStorageError
from kavka.protocol.schemas.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def topic(name, count, assignments=None):
    rows = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=rows)


@pytest.fixture
def tell(ask, loop):
    loop.topic("a")

    def call(*topics, version=3, validate_only=False):
        request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1, validate_only=validate_only)
        rows = ask(create_partitions, request, version, loop, loop.quotas).results
        return {row.name: row.error_code for row in rows}

    return call


@pytest.mark.parametrize("version", range(4))
def test_every_topic_has_its_own_outcome(tell, loop, version):
    loop.topic("b", partitions=2)
    codes = tell(topic("a", 3), topic("b", 2), topic("nope", 2), topic("c", 1), topic("c", 2), version=version)
    assert codes == {"a": 0, "b": 37, "nope": 3, "c": 42}
    assert len(loop.image.topics.by_name["a"].partitions) == 3


def test_added_partitions_can_be_placed_by_hand(tell, loop):
    assert tell(topic("a", 2, [[1]])) == {"a": 0}
    assert tell(topic("a", 4, [[1]])) == {"a": 39}


def test_validating_only_adds_nothing(tell, loop):
    assert tell(topic("a", 3), validate_only=True) == {"a": 0}
    assert len(loop.image.topics.by_name["a"].partitions) == 1


def test_a_failing_controller_is_said_of_each_topic(tell, loop):
    loop.error = KafkaStorageError("gone")
    assert tell(topic("a", 3)) == {"a": 56}


def test_whoever_has_used_up_the_quota_for_changes_is_refused(tell, loop):
    loop.topic("b")
    loop.write(
        loop.machine.alter_client_quotas([Alteration((("client-id", None),), [("controller_mutation_rate", 1.0)])])
    )
    assert tell(topic("a", 13), topic("b", 2), topic("a2", 2)) == {"a": 0, "b": 89, "a2": 3}
    assert tell(topic("b", 2), version=2) == {"b": 0}
