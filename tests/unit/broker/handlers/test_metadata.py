"""Metadata: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.context import NOT_ASKED
from kavka.broker.handlers.metadata import metadata
from kavka.metadata.image.topics import NO_LEADER
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.types import Uuid
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from kavka.quorum.topic_creation import TopicCreation
from kavka.security.acl import OPERATIONS, ResourceType

TOPIC_OPERATIONS = sum(1 << operation for operation in OPERATIONS[ResourceType.TOPIC])

VERSIONS = range(14)


def named(*names, **more):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **more)


def by_id(*ids):
    return MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=id_) for id_ in ids])


@pytest.fixture
def tell(ask, loop):
    def call(request, version=12, **more):
        return ask(metadata, request, version, loop, loop.settings, TopicCreation(loop), **more)

    return call


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_listed_with_brokers_and_controller(tell, loop, version):
    loop.topic("a", partitions=2)
    loop.topic("b")
    answer = tell(MetadataRequest(topics=None if version else []), version)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("a", 2), ("b", 1)]
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "plaintext1", 9092)]
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == loop.cluster_id
    if version >= 10:
        assert answer.topics[0].topic_id == loop.image.topics.by_name["a"].id
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (0, 1, [1], [1])


def test_no_topic_named_means_none_from_version_1(tell, loop):
    loop.topic("a")
    assert tell(named(), 1).topics == []


def test_addresses_are_those_of_the_listener_that_was_asked_on(tell):
    assert tell(named(), listener="LAN").brokers[0].host == "lan1"
    assert tell(named(), listener="OTHER").brokers == []


def test_a_missing_topic_is_created_if_client_and_broker_allow_it(tell, loop):
    row = tell(named("new")).topics[0]
    assert (row.error_code, row.name, len(row.partitions)) == (0, "new", 1)
    assert "new" in loop.image.topics.by_name


def test_before_version_4_the_client_cannot_forbid_it(tell, loop):
    assert tell(named("new"), 3).topics[0].error_code == 0


@pytest.mark.parametrize(
    ("name", "code"), [("nope", 3), ("bad name", 17), ("", 17), ("x" * 250, 17), ("__consumer_offsets", 3)]
)
def test_what_is_not_there_and_not_created_has_its_code(tell, loop, name, code):
    row = tell(named(name, allow_auto_topic_creation=False)).topics[0]
    assert (row.error_code, row.name, row.partitions) == (code, name, [])
    assert row.is_internal == (name == "__consumer_offsets")
    assert not loop.image.topics.by_name


def test_the_broker_may_forbid_creation_too(ask, loops):
    loop = loops(auto_create_topics_enable="false")
    assert ask(metadata, named("nope"), 12, loop, loop.settings, TopicCreation(loop)).topics[0].error_code == 3


def test_a_topic_that_cannot_be_created_stays_unknown(ask, loops):
    loop = loops(default_replication_factor=3)
    assert ask(metadata, named("nope"), 12, loop, loop.settings, TopicCreation(loop)).topics[0].error_code == 3


def test_internal_topics_are_not_created_for_clients(tell, loop):
    assert tell(named("__consumer_offsets")).topics[0].error_code == 3
    assert not loop.image.topics.by_name


def test_a_topic_named_twice_is_answered_once(tell, loop):
    loop.topic("a")
    assert len(tell(named("a", "a")).topics) == 1


def test_topics_by_id(tell, loop):
    id_, unknown = loop.topic("a").id, Uuid(b"u" * 16)
    known, missing = tell(by_id(id_, unknown)).topics
    assert (known.error_code, known.name, known.topic_id) == (0, "a", id_)
    assert (missing.error_code, missing.name, missing.topic_id) == (100, None, unknown)


def test_before_version_12_ids_are_refused(tell, loop):
    loop.topic("a")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a", topic_id=Uuid(b"u" * 16))])
    assert tell(request, 11).topics[0].error_code == 42


def test_operations_are_told_on_request(tell, loop):
    loop.topic("a")
    assert (
        tell(named("a", include_topic_authorized_operations=True)).topics[0].topic_authorized_operations
        == TOPIC_OPERATIONS
    )
    assert tell(named("a")).topics[0].topic_authorized_operations == NOT_ASKED
    assert tell(named("a", include_cluster_authorized_operations=True), 10).cluster_authorized_operations == 8096


@pytest.mark.parametrize(("version", "code"), [(0, 5), (5, 5), (6, 72)])
def test_a_leader_without_the_listener_is_an_error_of_the_partition(tell, loop, version, code):
    loop.topic("a")
    partition = tell(named("a"), version, listener="OTHER").topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (code, -1)
    if version >= 5:
        assert partition.offline_replicas == [1]


def test_a_partition_without_leader_says_so(tell, loop):
    id_ = loop.topic("a").id
    loop.machine.replay([PartitionChangeRecord(partition_id=0, topic_id=id_, leader=NO_LEADER, isr=[])], 99, 1)
    partition = tell(named("a")).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (5, -1, 1)


def test_fenced_brokers_are_not_listed_and_their_replicas_are_offline(tell, loop):
    loop.broker(2, unfence=False)
    loop.topic("a", assignments=[(0, [1, 2])])
    answer = tell(named("a"))
    assert [broker.node_id for broker in answer.brokers] == [1]
    partition = answer.topics[0].partitions[0]
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1, 2], [1], [2])
    assert tell(named("a"), 0).topics[0].partitions[0].error_code == 9
