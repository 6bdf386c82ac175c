"""Records of streams groups (KIP-1071)."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int8, Int16, Int32, Int64, UInt16, fresh, message, record, tag


@record(key=17, versions="0", flexible="none")
class StreamsGroupMetadataKey:
    group_id: str


@message
class LastAssignmentConfig:
    key: str
    value: str


@record(key=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Annotated[Int32, tag(0)] = -1
    last_assignment_configs: Annotated[list[LastAssignmentConfig] | None, tag(1)] = fresh()


@record(key=19, versions="0", flexible="none")
class StreamsGroupMemberMetadataKey:
    group_id: str
    member_id: str


@message
class Endpoint:
    host: str
    port: UInt16


@message
class KeyValue:
    key: str
    value: str


@record(key=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: str
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]


@record(key=20, versions="0", flexible="none")
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str


@record(key=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tag(0), IGNORABLE] = 0


@record(key=21, versions="0", flexible="none")
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str
    member_id: str


@message
class TargetTaskIds:
    subtopology_id: str
    partitions: list[Int32]


@record(key=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TargetTaskIds]
    standby_tasks: list[TargetTaskIds]
    warmup_tasks: list[TargetTaskIds]


@record(key=22, versions="0", flexible="none")
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str
    member_id: str


@message
class TaskIds:
    subtopology_id: str
    partitions: list[Int32]
    assignment_epochs: Annotated[list[Int32] | None, tag(0)] = fresh()


@record(key=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
    active_tasks_pending_revocation: list[TaskIds]
    standby_tasks_pending_revocation: list[TaskIds]
    warmup_tasks_pending_revocation: list[TaskIds]


@record(key=23, versions="0", flexible="none")
class StreamsGroupTopologyKey:
    group_id: str


@message
class TopicConfig:
    key: str
    value: str


@message
class TopologyTopic:
    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[TopicConfig]


@message
class CopartitionGroup:
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@message
class Subtopology:
    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopologyTopic]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[TopologyTopic]
    copartition_groups: list[CopartitionGroup]


@record(key=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    epoch: Int32
    subtopologies: list[Subtopology]


RECORDS = (
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
