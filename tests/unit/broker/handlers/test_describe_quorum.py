"""Describe quorum: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.describe_quorum import describe_quorum
from kavka.model.types import Uuid
from kavka.protocol.schemas.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData


def request(topic="__cluster_metadata", *partitions):
    rows = [RequestPartitionData(partition_index=index) for index in partitions or (0,)]
    return DescribeQuorumRequest(topics=[RequestTopicData(topic_name=topic, partitions=rows)])


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described(ask, loop, version):
    answer = ask(describe_quorum, request(), version, loop)
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch, partition.high_watermark) == (
        0,
        1,
        3,
        10,
    )
    if version >= 2:
        assert answer.error_message == partition.error_message == ""  # what Kafka says of success
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, 10)
    assert partition.observers == []
    if version >= 1:
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (5, 5)
    if version >= 2:
        assert voter.replica_directory_id == Uuid(b"d" * 16)
        assert [(node.node_id, node.listeners[0].name) for node in answer.nodes] == [(1, "CONTROLLER")]


@pytest.mark.parametrize("asked", [request("a"), request("__cluster_metadata", 1), request("__cluster_metadata", 0, 1)])
def test_any_other_partition_is_unknown(ask, loop, asked):
    answer = ask(describe_quorum, asked, 2, loop)
    assert {partition.error_code for topic in answer.topics for partition in topic.partitions} == {3}
    assert all(partition.error_message for topic in answer.topics for partition in topic.partitions)
