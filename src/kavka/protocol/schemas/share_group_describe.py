"""ShareGroupDescribe (key 77): show share groups (KIP-932)."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, message, request, response


@request(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    group_ids: list[str]
    include_authorized_operations: bool


@message
class TopicPartitions:
    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


@message
class Assignment:
    topic_partitions: list[TopicPartitions]


@message
class Member:
    member_id: str
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    assignment: Assignment


@message
class DescribedGroup:
    error_code: Int16
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: str
    members: list[Member]
    authorized_operations: Int32 = -2147483648


@response(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
