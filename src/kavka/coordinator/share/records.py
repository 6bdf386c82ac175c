"""Records of share groups (KIP-932)."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int8, Int32, Int64, message, record, tag


@record(key=10, versions="0", flexible="none")
class ShareGroupMemberMetadataKey:
    group_id: str
    member_id: str


@record(key=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


@record(key=11, versions="0", flexible="none")
class ShareGroupMetadataKey:
    group_id: str


@record(key=11, versions="0", flexible="0+")
class ShareGroupMetadataValue:
    epoch: Int32
    metadata_hash: Int64


@record(key=12, versions="0", flexible="none")
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str


@record(key=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tag(0), IGNORABLE] = 0


@record(key=13, versions="0", flexible="none")
class ShareGroupTargetAssignmentMemberKey:
    group_id: str
    member_id: str


@message
class ShareAssignmentTopic:
    topic_id: Uuid
    partitions: list[Int32]


@record(key=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[ShareAssignmentTopic]


@record(key=14, versions="0", flexible="none")
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str
    member_id: str


@record(key=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[ShareAssignmentTopic]


@record(key=15, versions="0", flexible="none")
class ShareGroupStatePartitionMetadataKey:
    group_id: str


@message
class TopicPartitionsInfo:
    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


@message
class DeletingTopic:
    topic_id: Uuid
    topic_name: str


@record(key=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[DeletingTopic]


RECORDS = (
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
