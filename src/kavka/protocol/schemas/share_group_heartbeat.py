"""ShareGroupHeartbeat (key 76): join, stay in or leave a share group (KIP-932)."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, message, request, response


@request(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@message
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@message
class Assignment:
    topic_partitions: list[TopicPartitions]


@response(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
