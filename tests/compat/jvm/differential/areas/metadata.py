"""What nodes, topics and partitions there are: Metadata, FindCoordinator and the Describe APIs of cluster and logs."""

from __future__ import annotations

from jvm.differential.areas.topics import NOBODY
from jvm.differential.case import Case, cases

from kavka.model.types import Uuid
from kavka.protocol.schemas.describe_cluster import DescribeClusterRequest
from kavka.protocol.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kavka.protocol.schemas.describe_producers import DescribeProducersRequest
from kavka.protocol.schemas.describe_producers import TopicRequest as ProducersOf
from kavka.protocol.schemas.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from kavka.protocol.schemas.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic


def named(*names: str | None, create: bool = False, operations: bool = False) -> MetadataRequest:
    """Metadata of topics by name."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(
        topics=topics, allow_auto_topic_creation=create, include_topic_authorized_operations=operations
    )


def by_id(topic_id: Uuid, name: str | None = None) -> MetadataRequest:
    """Metadata of a topic by id."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=topic_id)], allow_auto_topic_creation=False)


def partitions(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    """A description of topics."""
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def quorum(name: str, partition: int) -> DescribeQuorumRequest:
    """The state of a quorum."""
    row = RequestTopicData(topic_name=name, partitions=[RequestPartitionData(partition_index=partition)])
    return DescribeQuorumRequest(topics=[row])


def log_dirs(**topics: list[int]) -> DescribeLogDirsRequest:
    """What lies in the log folders."""
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics.items()]
    )


def producers(name: str, *numbers: int) -> DescribeProducersRequest:
    """The producers of partitions."""
    return DescribeProducersRequest(topics=[ProducersOf(name=name, partition_indexes=list(numbers))])


# How long the metadata log is, and how many elections it took, is the node's own affair.
QUORUM_MASKS = {"*.high_watermark": "<offset>", "*.log_end_offset": "<offset>", "*.leader_epoch": "<epoch>"}

METADATA = [
    Case("metadata of all topics v0", MetadataRequest(topics=[], allow_auto_topic_creation=True), 0),
    *cases(1, 4, 8, 9, 11, 13, name="metadata of all topics", request=MetadataRequest(topics=None)),
    *cases(1, 7, 10, 13, name="metadata of no topics", request=MetadataRequest(topics=[])),
    Case("metadata of a topic v0", MetadataRequest(topics=[MetadataRequestTopic(name="produced")]), 0),
    *cases(4, 5, 7, 9, 10, 12, 13, name="metadata of a topic", request=named("produced")),
    *cases(4, 9, 12, 13, name="metadata of an unknown topic", request=named("nowhere")),
    Case("metadata with operations v8", named("produced", operations=True), 8),
    Case("metadata with operations v13", named("produced", operations=True), 13),
    Case(
        "metadata with the cluster's operations",
        MetadataRequest(topics=[], include_cluster_authorized_operations=True),
        8,
    ),
    Case("metadata of a bad name", named("a/b"), 12),
    Case("metadata of an empty name", named(""), 12),
    Case("metadata of a topic twice", named("produced", "produced"), 12),
    Case("metadata of a null name", named(None), 12),
    Case("metadata of a topic by id v10", lambda seen: by_id(seen.topic_id("produced")), 10),
    *cases(12, 13, name="metadata of a topic by id", request=lambda seen: by_id(seen.topic_id("produced"))),
    Case("metadata by id and name", lambda seen: by_id(seen.topic_id("produced"), "produced"), 12),
    Case("metadata by id and another name", lambda seen: by_id(seen.topic_id("produced"), "fetched"), 12),
    Case("metadata of an unknown id", by_id(NOBODY), 12),
    Case("metadata that creates a topic v0", MetadataRequest(topics=[MetadataRequestTopic(name="auto-v0")]), 0),
    Case("metadata that creates a topic v12", named("auto-v12", create=True), 12),
    Case("metadata of the topic it created", named("auto-v12"), 12),
    Case("metadata that would create a bad name", named("a b", create=True), 12),
    Case("metadata that would create an internal topic", named("__cluster_metadata"), 12),
    Case("partitions of a topic", partitions("produced"), 0),
    Case("partitions of two topics, not in order", partitions("produced", "fetched"), 0),
    Case("partitions of an unknown topic", partitions("nowhere"), 0),
    Case("partitions of all topics", partitions(), 0),
    Case("partitions of a bad name", partitions("a/b"), 0),
    Case("partitions, two at a time", partitions("produced", "fetched", limit=2), 0),
    Case("partitions from a cursor", partitions("produced", limit=2, cursor=("produced", 2)), 0),
    Case("partitions from a cursor in the next topic", partitions("fetched", "produced", cursor=("fetched", 2)), 0),
    Case("partitions from a cursor beyond the end", partitions("produced", cursor=("produced", 99)), 0),
    Case("partitions from a negative cursor", partitions("produced", cursor=("produced", -1)), 0),
    Case("partitions from a cursor in an unknown topic", partitions("produced", cursor=("nowhere", 0)), 0),
    Case("partitions with no room", partitions("produced", limit=0), 0),
]

CLUSTER = [
    *cases(0, 1, 2, name="the cluster", request=DescribeClusterRequest(include_cluster_authorized_operations=False)),
    *cases(
        0,
        2,
        name="the cluster with operations",
        request=DescribeClusterRequest(include_cluster_authorized_operations=True),
    ),
    Case(
        "the cluster with fenced brokers",
        DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True),
        2,
    ),
    *[
        Case(
            f"the cluster with endpoint type {kind}",
            DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind),
            1,
        )
        for kind in (0, 2, 9)
    ],
    *cases(0, 1, 2, name="the quorum", request=quorum("__cluster_metadata", 0)),
    Case("the quorum of another topic", quorum("produced", 0), 2),
    Case("the quorum of another partition", quorum("__cluster_metadata", 1), 2),
    Case("the quorum of nothing", DescribeQuorumRequest(topics=[]), 2),
    *cases(1, 2, 3, 4, 5, name="log dirs of a topic", request=log_dirs(produced=[0, 1])),
    Case("log dirs of an unknown topic", log_dirs(nowhere=[0]), 4),
    Case("log dirs of an unknown partition", log_dirs(produced=[0, 77]), 4),
    Case("log dirs of no topics", DescribeLogDirsRequest(topics=[]), 4),
    Case("producers of a partition", producers("produced", 0), 0),
    Case("producers of an unknown topic", producers("nowhere", 0), 0),
    Case("producers of an unknown partition", producers("produced", 0, 77), 0),
    Case("producers of a bad name", producers("a/b", 0), 0),
    Case("producers of nothing", DescribeProducersRequest(topics=[]), 0),
]
CLUSTER = [
    Case(case.name, case.request, case.version, masks=QUORUM_MASKS) if case.name.startswith("the quorum") else case
    for case in CLUSTER
]

# Asked last: the first question for a coordinator creates its internal topic, which then shows in every list.
COORDINATORS = [
    Case("the coordinator of a group v0", FindCoordinatorRequest(key="a-group"), 0),
    *cases(1, 3, name="the coordinator of a group", request=FindCoordinatorRequest(key="a-group", key_type=0)),
    *cases(
        4, 6, name="the coordinators of groups", request=FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
    ),
    Case("the coordinator of no group", FindCoordinatorRequest(key_type=0, coordinator_keys=[]), 4),
    Case("the coordinator of an empty group", FindCoordinatorRequest(key="", key_type=0), 3),
    Case("the coordinator of an unknown type v3", FindCoordinatorRequest(key="a", key_type=9), 3),
    Case("the coordinator of an unknown type v4", FindCoordinatorRequest(key_type=9, coordinator_keys=["a"]), 4),
    Case("the coordinator of a share key that is none", FindCoordinatorRequest(key_type=2, coordinator_keys=["a"]), 6),
    Case("the coordinator of a share key too early", FindCoordinatorRequest(key_type=2, coordinator_keys=["a"]), 5),
]
