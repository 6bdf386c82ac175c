"""GetReplicaLogInfo (key 93): how far a broker's replicas are, which only nodes of ours ask (KIP-966)."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, Int64, message, request, response


@message
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@request(key=93, versions="0", flexible="0+")
class GetReplicaLogInfoRequest:
    topic_partitions: list[TopicPartitions]


@message
class PartitionLogInfo:
    partition: Int32
    last_written_leader_epoch: Int32
    current_leader_epoch: Int32
    log_end_offset: Int64
    error_code: Int16
    error_message: str | None


@message
class TopicPartitionLogInfo:
    topic_id: Uuid
    partition_log_info: list[PartitionLogInfo]


@response(key=93, versions="0", flexible="0+")
class GetReplicaLogInfoResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    topic_partition_log_info_list: list[TopicPartitionLogInfo]
