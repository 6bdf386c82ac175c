"""Records of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int8, Int32, Int64, fresh, message, record, tag


@record(key=3, versions="0", flexible="none")
class ConsumerGroupMetadataKey:
    group_id: str


@record(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: Int32
    metadata_hash: Annotated[Int64, tag(0)] = 0


@record(key=4, versions="0", flexible="none")
class ConsumerGroupPartitionMetadataKey:
    group_id: str


@message
class PartitionMetadata:
    partition: Int32
    racks: list[str]


@message
class TopicMetadata:
    topic_id: Uuid
    topic_name: str
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


@record(key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata]


@record(key=5, versions="0", flexible="none")
class ConsumerGroupMemberMetadataKey:
    group_id: str
    member_id: str


@message
class ClassicProtocol:
    name: str
    metadata: bytes


@message
class ClassicMemberMetadata:
    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


@record(key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tag(0)] = fresh()  # null is written out


@record(key=6, versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str


@record(key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tag(0), IGNORABLE] = 0


@record(key=7, versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str
    member_id: str


@message
class TargetAssignmentTopic:
    topic_id: Uuid
    partitions: list[Int32]


@record(key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TargetAssignmentTopic]


@record(key=8, versions="0", flexible="none")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str
    member_id: str


@message
class CurrentAssignmentTopic:
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: Annotated[list[Int32] | None, tag(0)] = fresh()


@record(key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentAssignmentTopic]
    partitions_pending_revocation: list[CurrentAssignmentTopic]


@record(key=16, versions="0", flexible="none")
class ConsumerGroupRegularExpressionKey:
    group_id: str
    regular_expression: str


@record(key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[str]
    version: Int64
    timestamp: Int64


RECORDS = (
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
