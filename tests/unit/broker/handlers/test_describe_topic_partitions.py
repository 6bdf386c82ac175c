"""Describe topic partitions: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.describe_topic_partitions import describe_topic_partitions
from kavka.protocol.schemas.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kavka.security.acl import OPERATIONS, ResourceType

TOPIC_OPERATIONS = sum(1 << operation for operation in OPERATIONS[ResourceType.TOPIC])


def named(*names, **more):
    return DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names], **more)


@pytest.fixture
def tell(ask, loop):
    loop.topic("b", partitions=3)
    loop.topic("a", partitions=2)
    return lambda request: ask(describe_topic_partitions, request, 0, loop, loop.settings)


def page(answer):
    return [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in answer.topics]


def test_all_topics_come_in_the_order_of_their_names(tell):
    answer = tell(named())
    assert page(answer) == [("a", [0, 1]), ("b", [0, 1, 2])]
    assert answer.next_cursor is None
    first = answer.topics[0].partitions[0]
    assert (first.leader_id, first.replica_nodes, first.isr_nodes) == (1, [1], [1])
    assert (first.eligible_leader_replicas, first.last_known_elr, first.offline_replicas) == ([], [], [])
    assert answer.topics[0].topic_authorized_operations == TOPIC_OPERATIONS


def test_a_page_ends_with_a_cursor_and_the_next_goes_on_there(tell):
    first = tell(named(response_partition_limit=3))
    assert page(first) == [("a", [0, 1]), ("b", [0])]
    assert first.next_cursor == Cursor(topic_name="b", partition_index=1)
    second = tell(named(response_partition_limit=3, cursor=first.next_cursor))
    assert page(second) == [("b", [1, 2])]
    assert second.next_cursor is None


def test_a_page_that_ends_with_a_topic_points_to_the_next_one(tell):
    answer = tell(named(response_partition_limit=2))
    assert page(answer) == [("a", [0, 1])]
    assert answer.next_cursor == Cursor(topic_name="b", partition_index=0)


def test_the_broker_limits_the_page(ask, loops):
    loop = loops(max_request_partition_size_limit=1)
    loop.topic("a", partitions=2)
    answer = ask(describe_topic_partitions, named(response_partition_limit=2000), 0, loop, loop.settings)
    assert page(answer) == [("a", [0])]


def test_named_topics_that_are_not_there_have_their_code(tell):
    answer = tell(named("a", "nope", "bad name"))
    assert {topic.name: topic.error_code for topic in answer.topics} == {"a": 0, "nope": 3, "bad name": 17}


@pytest.mark.parametrize(
    "cursor", [Cursor(topic_name="b", partition_index=0), Cursor(topic_name="a", partition_index=-1)]
)
def test_a_cursor_that_points_nowhere_is_an_invalid_request(tell, cursor):
    answer = tell(named("a", cursor=cursor))
    assert [topic.error_code for topic in answer.topics] == [42]
