"""CreateTopics, CreatePartitions, DeleteTopics: the topics that the later areas use are made here."""

from __future__ import annotations

from typing import Any

from jvm.differential.case import Case, cases

from kavka.model.types import Uuid
from kavka.protocol.schemas.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kavka.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kavka.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState

NOBODY = Uuid(bytes(15) + b"\x77")


def topic(name: str, partitions: int = 1, replicas: int = 1, **rest: Any) -> CreatableTopic:
    """A topic to create; configs as a dict, assignments as lists of brokers."""
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in rest.get("configs", {}).items()]
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in rest.get("assignments", {}).items()
    ]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=assignments, configs=configs
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    """A request for these topics."""
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def grow(
    name: str, count: int, assignments: list[list[int]] | None = None, validate_only: bool = False
) -> CreatePartitionsRequest:
    """A request for more partitions."""
    rows = None if assignments is None else [CreatePartitionsAssignment(broker_ids=row) for row in assignments]
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=rows)
    return CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000, validate_only=validate_only)


def delete(*names: str) -> DeleteTopicsRequest:
    """Delete by name, before version 6."""
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000)


CREATE = [
    *[
        case
        for version in range(2, 8)
        for case in cases(version, name="create a topic", request=create(topic(f"created-v{version}")))
    ],
    Case("create the topic of the produce cases", create(topic("produced", 3)), 7),
    Case("create the topic of the fetch cases", create(topic("fetched", 3)), 7),
    Case("create the topic of the cases that we check less", create(topic("unchecked", 4)), 7),
    Case(
        "create a topic with configs",
        create(topic("compacted", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})),
        7,
    ),
    Case(
        "create a topic with log append time",
        create(topic("append-time", configs={"message.timestamp.type": "LogAppendTime"})),
        7,
    ),
    Case("create a topic with small messages", create(topic("small", configs={"max.message.bytes": "200"})), 7),
    Case("create a topic with a codec", create(topic("zipped", configs={"compression.type": "gzip"})), 7),
    Case(
        "create a topic that stores no codec",
        create(topic("unzipped", configs={"compression.type": "uncompressed"})),
        7,
    ),
    Case(
        "create a topic with narrow timestamps",
        create(
            topic(
                "narrow", configs={"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
            )
        ),
        7,
    ),
    Case("create a topic that needs two replicas", create(topic("two-isr", configs={"min.insync.replicas": "2"})), 7),
    Case("create a topic with the default count and factor", create(topic("defaults", -1, -1)), 7),
    Case("create a topic with an assignment", create(topic("assigned", -1, -1, assignments={0: [1], 1: [1]})), 7),
    Case("create two topics at once, one of them wrong", create(topic("twin"), topic("tw in")), 7),
    Case("create a topic only to validate", create(topic("imagined", 4), validate_only=True), 7),
    Case("create a topic only to validate, which exists", create(topic("twin"), validate_only=True), 7),
    Case("create a topic only to validate, which is wrong", create(topic("imagined", 0), validate_only=True), 7),
    Case("create no topics", create(), 7),
    *cases(2, 5, 7, name="create a topic again", request=create(topic("twin"))),
    *cases(4, 7, name="create a topic with a bad name", request=create(topic("a/b"))),
    Case("create a topic with an empty name", create(topic("")), 7),
    Case("create a topic called dot", create(topic(".")), 7),
    Case("create a topic with a name of 249 letters", create(topic("n" * 249)), 7),
    Case("create a topic with a name of 250 letters", create(topic("n" * 250)), 7),
    Case("create a topic whose name collides", create(topic("with.dot")), 7),
    Case("create a topic whose name collides with it", create(topic("with_dot")), 7),
    Case("create a topic with an internal name", create(topic("__cluster_metadata")), 7),
    Case("create a topic with no partitions", create(topic("none", 0)), 7),
    Case("create a topic with negative partitions", create(topic("none", -2)), 7),
    Case("create a topic with no replicas", create(topic("none", 1, 0)), 7),
    Case("create a topic with negative replicas", create(topic("none", 1, -2)), 7),
    Case("create a topic with too many replicas", create(topic("none", 1, 3)), 7),
    Case("create a topic twice in a request", create(topic("double"), topic("double")), 7),
    Case("create a topic with an assignment and a count", create(topic("none", 2, -1, assignments={0: [1]})), 7),
    Case("create a topic with an assignment and a factor", create(topic("none", -1, 1, assignments={0: [1]})), 7),
    Case("create a topic on an unknown broker", create(topic("none", -1, -1, assignments={0: [9]})), 7),
    Case("create a topic with a replica twice", create(topic("none", -1, -1, assignments={0: [1, 1]})), 7),
    Case("create a topic with an empty assignment", create(topic("none", -1, -1, assignments={0: []})), 7),
    Case("create a topic with a gap in the assignment", create(topic("none", -1, -1, assignments={0: [1], 2: [1]})), 7),
    Case("create a topic with an unknown config", create(topic("none", configs={"no.such": "1"})), 7),
    Case("create a topic with a wrong value", create(topic("none", configs={"retention.ms": "soon"})), 7),
    Case("create a topic with a value out of range", create(topic("none", configs={"segment.bytes": "1"})), 7),
    Case("create a topic with a null value", create(topic("none", configs={"retention.ms": None})), 7),
    Case("create a topic with a broker's config", create(topic("none", configs={"log.retention.ms": "1"})), 7),
    Case(
        "create a topic with contradicting configs",
        create(topic("none", configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})),
        7,
    ),
    Case("create a tiered topic", create(topic("none", configs={"remote.storage.enable": "true"})), 7),
]

PARTITIONS = [
    *[Case(f"more partitions v{version}", grow("created-v2", 2 + version), version) for version in range(4)],
    Case("more partitions, only to validate", grow("created-v2", 50, validate_only=True), 3),
    Case("more partitions where they are told", grow("created-v2", 6, [[1]]), 3),
    Case("fewer partitions", grow("created-v2", 1), 3),
    Case("as many partitions as there are", grow("created-v2", 6), 3),
    Case("negative partitions", grow("created-v2", -1), 3),
    Case("more partitions of an unknown topic", grow("nowhere", 2), 3),
    Case("more partitions on an unknown broker", grow("created-v2", 7, [[9]]), 3),
    Case("more partitions with too short an assignment", grow("created-v2", 9, [[1]]), 3),
    Case("more partitions with another replication factor", grow("created-v2", 7, [[1, 1]]), 3),
    Case(
        "more partitions twice in a request",
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="created-v2", count=count, assignments=None) for count in (8, 9)],
            timeout_ms=10_000,
            validate_only=False,
        ),
        3,
    ),
]

DELETE = [
    *[Case(f"delete a topic v{version}", delete(f"created-v{version + 1}"), version) for version in range(1, 6)],
    Case(
        "delete a topic by name v6",
        DeleteTopicsRequest(topics=[DeleteTopicState(name="created-v7", topic_id=Uuid.ZERO)], timeout_ms=10_000),
        6,
    ),
    Case(
        "delete a topic by id",
        lambda seen: DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=seen.topic_id("assigned"))], timeout_ms=10_000
        ),
        6,
    ),
    *cases(1, 5, name="delete an unknown topic", request=delete("nowhere")),
    Case(
        "delete an unknown topic v6",
        DeleteTopicsRequest(topics=[DeleteTopicState(name="nowhere", topic_id=Uuid.ZERO)], timeout_ms=10_000),
        6,
    ),
    Case(
        "delete an unknown id",
        DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=NOBODY)], timeout_ms=10_000),
        6,
    ),
    Case(
        "delete by name and id",
        DeleteTopicsRequest(topics=[DeleteTopicState(name="twin", topic_id=NOBODY)], timeout_ms=10_000),
        6,
    ),
    Case(
        "delete neither name nor id",
        DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=Uuid.ZERO)], timeout_ms=10_000),
        6,
    ),
    Case("delete a topic and an unknown one", delete("twin", "nowhere"), 5),
    Case("delete a topic twice in a request", delete("defaults", "defaults"), 5),
    Case("delete nothing", delete(), 5),
]
