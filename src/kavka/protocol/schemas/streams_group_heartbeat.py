"""StreamsGroupHeartbeat (key 88): join, stay in or leave a streams group (KIP-1071)."""

from __future__ import annotations

from kavka.protocol.schema import Int8, Int16, Int32, Int64, UInt16, fresh, message, request, response


@message
class KeyValue:
    key: str
    value: str


@message
class TopicInfo:
    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


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
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@message
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology]


@message
class TaskIds:
    subtopology_id: str
    partitions: list[Int32]


@message
class Endpoint:
    host: str
    port: UInt16


@message
class TaskOffset:
    subtopology_id: str
    partition: Int32
    offset: Int64


@request(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


@message
class Status:
    status_code: Int8
    status_detail: str


@message
class TopicPartition:
    topic: str
    partitions: list[Int32]


@message
class EndpointToPartitions:
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@response(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    member_id: str
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: list[Status] | None = fresh()
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
