"""Creating and deleting topics: Kafka's checks and codes."""

from __future__ import annotations

import pytest

from kavka.controller.topics import CreatedTopic, NewPartitions, NewTopic
from kavka.metadata.image import ConfigResource
from kavka.metadata.image.cluster import UNASSIGNED
from kavka.metadata.records.settings import ConfigRecord
from kavka.metadata.records.topics import ClearElrRecord, PartitionRecord, TopicRecord
from kavka.model.errors import KafkaError, PolicyViolation, UnknownServerError
from kavka.model.types import Uuid


def code(outcome):
    return outcome.code if isinstance(outcome, KafkaError) else 0


def test_a_topic_gets_the_defaults_of_the_cluster(ledgers):
    node = ledgers(num_partitions=3)
    node.broker()
    created = node.topic("a")
    assert created == CreatedTopic(node.image.topics.by_name["a"].id, 3, 1)
    partition = node.partition("a", 2)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch, partition.replicas, partition.isr) == (
        1,
        0,
        0,
        (1,),
        (1,),
    )
    assert partition.directories == node.image.cluster.brokers[1].directories


def test_records_come_as_topic_then_settings_then_partitions(node):
    before = len(node.log)
    node.topic("a", partitions=2, configs={"min.insync.replicas": "1", "retention.ms": "5"})
    kinds = [type(record) for record in node.log[before:]]
    assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, ClearElrRecord, PartitionRecord, PartitionRecord]


def test_a_replica_on_a_broker_with_two_directories_is_not_placed_yet(empty):
    empty.broker(dirs=2)
    empty.topic("a")
    assert empty.partition("a").directories == (UNASSIGNED,)


def test_replicas_are_spread_over_racks(three):
    three.topic("a", partitions=6, replication=2)
    leaders = [partition.leader for partition in three.image.topics.by_name["a"].partitions.values()]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (NewTopic("", partitions=1, replication=1), 17),
        (NewTopic("a b", partitions=1, replication=1), 17),
        (NewTopic("x" * 250, partitions=1, replication=1), 17),
        (NewTopic("there", partitions=1, replication=1), 36),
        (NewTopic("dot.ted", partitions=1, replication=1), 36),
        (NewTopic("dot_ted", partitions=1, replication=1), 17),
        (NewTopic("n", partitions=0, replication=1), 37),
        (NewTopic("n", partitions=-2, replication=1), 37),
        (NewTopic("n", partitions=1, replication=0), 38),
        (NewTopic("n", partitions=1, replication=-2), 38),
        (NewTopic("n", partitions=1, replication=3), 38),
        (NewTopic("n", partitions=0, replication=0), 38),
        (NewTopic("n", configs={"retention.ms": "soon"}), 40),
        (NewTopic("n", configs={"no.such.key": "1"}), 40),
        (NewTopic("n", configs={"retention.ms": None}), 40),
        (NewTopic("n", configs={"retention.ms": "1"}, partitions=0), 37),
        (NewTopic("n", partitions=1, assignments=[(0, [1])]), 42),
        (NewTopic("n", replication=1, assignments=[(0, [1])]), 42),
        (NewTopic("n", assignments=[(0, [1]), (0, [1])]), 39),
        (NewTopic("n", assignments=[(0, [])]), 39),
        (NewTopic("n", assignments=[(0, [9])]), 39),
        (NewTopic("n", assignments=[(0, [1, 1])]), 39),
        (NewTopic("n", assignments=[(1, [1])]), 39),
        (NewTopic("n", assignments=[(0, [1]), (2, [1])]), 39),
        (NewTopic("n", assignments=[(0, [1]), (1, [1, 2])]), 39),
        (NewTopic("n", assignments=[(0, [2])]), 39),
        (NewTopic("n", assignments=[(1, [1]), (0, [1])]), 0),
    ],
)
def test_every_refusal_has_kafkas_code_and_says_why(node, topic, expected):
    node.topic("there")
    node.topic("dot.ted")
    node.broker(2, unfence=False)
    before = len(node.log)
    outcome = node.create_topics([topic])[topic.name]
    assert code(outcome) == expected
    if expected:
        assert outcome.message
        assert len(node.log) == before


def test_one_bad_topic_does_not_stop_the_others(node):
    outcomes = node.create_topics([NewTopic("a"), NewTopic("b", partitions=0), NewTopic("c")])
    assert list(outcomes) == ["a", "b", "c"]
    assert [code(outcome) for outcome in outcomes.values()] == [0, 37, 0]
    assert set(node.image.topics.by_name) == {"a", "c"}


def test_names_that_collide_within_one_request_are_both_created_as_in_kafka(node):
    outcomes = node.create_topics([NewTopic("a.b"), NewTopic("a_b")])
    assert [code(outcome) for outcome in outcomes.values()] == [0, 0]
    assert node.image.topics.by_collision_key["a_b"] == ("a.b", "a_b")


def test_validating_only_writes_nothing(node):
    before = node.image
    outcome = node.create_topics([NewTopic("a", partitions=2)], validate_only=True)["a"]
    assert (outcome.partitions, outcome.replication) == (2, 1)
    assert node.image is before


def test_more_partitions_than_a_request_may_create_refuse_the_whole_request(node):
    with pytest.raises(PolicyViolation):
        node.create_topics([NewTopic("a", partitions=9_999), NewTopic("b", partitions=2)])
    assert node.topic("c", partitions=9_999).partitions == 9_999


def test_a_batch_that_would_be_too_long_is_refused(node):
    with pytest.raises(UnknownServerError):
        node.create_topics([NewTopic("a", partitions=10_000)])


def test_a_fenced_broker_gets_no_new_topic(empty):
    empty.broker(unfence=False)
    assert code(empty.topic("a")) == 38


def test_an_assigned_fenced_replica_is_not_in_sync(node):
    node.broker(2, unfence=False)
    assert code(node.topic("a", assignments=[(0, [2, 1])])) == 0
    partition = node.partition("a")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)


def test_a_deleted_topic_is_gone_with_its_settings_and_its_name_is_free(node):
    first = node.topic("a.b", configs={"retention.ms": "5"})
    assert node.delete_topics([first.id]) == {first.id: None}
    assert "a.b" not in node.image.topics.by_name
    assert node.image.configs.of(ConfigResource(2, "a.b")) == {}
    assert code(node.topic("a_b")) == 0
    assert code(node.delete_topics([first.id])[first.id]) == 100


def test_deleting_says_of_each_topic_what_became_of_it(node):
    known = node.topic("a").id
    unknown = Uuid(b"u" * 16)
    outcomes = node.delete_topics([unknown, known])
    assert code(outcomes[unknown]) == 100
    assert outcomes[known] is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (NewPartitions("nobody", 3), 3),
        (NewPartitions("a", 2), 37),
        (NewPartitions("a", 1), 37),
        (NewPartitions("a", -1), 37),
        (NewPartitions("a", 4, [[1]]), 39),
        (NewPartitions("a", 3, [[9]]), 39),
        (NewPartitions("a", 3, [[1, 2]]), 39),
        (NewPartitions("a", 3, [[2]]), 39),
        (NewPartitions("a", 2_000_000_000), -1),
        (NewPartitions("a", 4, [[1], [1]]), 0),
        (NewPartitions("a", 5), 0),
    ],
)
def test_adding_partitions_has_kafkas_codes(node, wanted, expected):
    node.topic("a", partitions=2)
    node.broker(2, unfence=False)
    outcome = node.create_partitions([wanted])[wanted.name]
    assert code(outcome) == expected
    assert len(node.image.topics.by_name["a"].partitions) == (wanted.count if expected == 0 else 2)


def test_adding_partitions_can_be_tried_without_doing_it(node):
    node.topic("a")
    assert node.create_partitions([NewPartitions("a", 4)], validate_only=True) == {"a": None}
    assert len(node.image.topics.by_name["a"].partitions) == 1


def test_the_catalogue_of_remote_segments_gets_no_more_partitions(node):
    node.topic("__remote_log_metadata", partitions=2)
    outcome = node.create_partitions([NewPartitions("__remote_log_metadata", 4)])["__remote_log_metadata"]
    assert code(outcome) == 37  # INVALID_PARTITIONS: what it remembers would be looked for elsewhere
    assert len(node.image.topics.by_name["__remote_log_metadata"].partitions) == 2


def test_added_partitions_keep_the_topics_replication_factor(three):
    three.topic("a", replication=3)
    three.create_partitions([NewPartitions("a", 2)])
    assert sorted(three.partition("a", 1).replicas) == [1, 2, 3]
