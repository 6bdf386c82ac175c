"""Assign replicas to directories: every outcome is one error code."""

from __future__ import annotations

from kavka.broker.handlers.assign_replicas_to_dirs import assign_replicas_to_dirs
from kavka.model.types import Uuid
from kavka.protocol.schemas.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

UNKNOWN, OTHER = Uuid(b"?" * 16), Uuid(b"o" * 16)


def test_every_replica_has_its_own_outcome(ask, loop):
    loop.broker(2)
    loop.topic("a", assignments=[(0, (1, 2)), (1, (2, 1))])
    loop.topic("b", assignments=[(0, (2,))])
    topics = loop.image.topics.by_name
    known = loop.image.cluster.brokers[1]

    def row(topic_id, *indexes):
        return RequestTopicData(
            topic_id=topic_id, partitions=[RequestPartitionData(partition_index=index) for index in indexes]
        )

    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=known.epoch,
        directories=[
            RequestDirectoryData(id=known.directories[0], topics=[row(topics["a"].id, 0, 9), row(topics["b"].id, 0)]),
            RequestDirectoryData(id=OTHER, topics=[row(UNKNOWN, 0), row(topics["a"].id, 1)]),
        ],
    )
    answer = ask(assign_replicas_to_dirs, request, 0, loop)
    codes = [
        (directory.id, topic.topic_id, partition.partition_index, partition.error_code)
        for directory in answer.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    assert codes == [
        (known.directories[0], topics["a"].id, 0, 0),
        (known.directories[0], topics["a"].id, 9, 3),
        (known.directories[0], topics["b"].id, 0, 6),
        (OTHER, UNKNOWN, 0, 100),
        (OTHER, topics["a"].id, 1, 0),
    ]
    # a directory that the broker does not have is one that it has lost
    assert loop.image.topics.by_name["a"].partitions[1].isr == (2,)
