"""Delete topics: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.delete_topics import delete_topics
from kavka.controller.quotas import Alteration
from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid
from kavka.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState

UNKNOWN = Uuid(b"u" * 16)


@pytest.fixture
def tell(ask, loop):
    def call(*topics, version=6, on=loop):
        if version < 6:
            request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=1)
        else:
            states = [DeleteTopicState(name=name, topic_id=id_) for name, id_ in topics]
            request = DeleteTopicsRequest(topics=states, timeout_ms=1)
        return ask(delete_topics, request, version, on, on.settings, on.quotas).responses

    return call


@pytest.mark.parametrize("version", range(1, 6))
def test_by_name(tell, loop, version):
    loop.topic("a")
    rows = tell("a", "nope", "twice", "twice", version=version)
    assert {row.name: row.error_code for row in rows} == {"a": 0, "nope": 3, "twice": 42}
    assert not loop.image.topics.by_name


def test_by_name_and_by_id(tell, loop):
    a, b, c = (loop.topic(name).id for name in "abc")
    rows = tell((None, a), ("b", Uuid.ZERO), (None, UNKNOWN), (None, Uuid.ZERO), ("c", c), ("nope", Uuid.ZERO))
    assert {(row.name, row.topic_id): row.error_code for row in rows} == {
        ("a", a): 0,
        ("b", b): 0,
        (None, UNKNOWN): 100,
        (None, Uuid.ZERO): 42,
        ("c", c): 42,
        ("nope", Uuid.ZERO): 3,
    }
    assert set(loop.image.topics.by_name) == {"c"}


def test_the_same_topic_by_name_and_by_id_is_not_deleted(tell, loop):
    a = loop.topic("a").id
    rows = tell(("a", Uuid.ZERO), (None, a))
    assert [(row.name, row.topic_id, row.error_code) for row in rows] == [("a", a, 42)]
    assert "a" in loop.image.topics.by_name


def test_an_id_given_twice_is_not_deleted(tell, loop):
    a = loop.topic("a").id
    assert [row.error_code for row in tell((None, a), (None, a))] == [42]
    assert "a" in loop.image.topics.by_name


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (5, 73)])
def test_deleting_can_be_forbidden(tell, loops, version, code):
    loop = loops(delete_topic_enable="false")
    loop.topic("a")
    assert [row.error_code for row in tell("a", version=version, on=loop)] == [code]
    assert "a" in loop.image.topics.by_name


def test_a_failing_controller_is_said_of_each_topic(tell, loop):
    a = loop.topic("a").id
    loop.error = KafkaStorageError("gone")
    assert [(row.error_code, row.error_message) for row in tell((None, a))] == [(56, "gone")]


def test_whoever_has_used_up_the_quota_for_changes_is_refused(tell, loop):
    loop.topic("a", partitions=12)
    loop.topic("b")
    loop.write(
        loop.machine.alter_client_quotas([Alteration((("client-id", None),), [("controller_mutation_rate", 1.0)])])
    )
    assert [row.error_code for row in tell("a", "b", version=5)] == [0, 89]
    assert [row.error_code for row in tell("b", version=4)] == [0]
