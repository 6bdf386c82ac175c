"""AlterPartitionReassignments (key 45): start or cancel moving replicas."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, message, request, response, since


@message
class ReassignablePartition:
    partition_index: Int32
    replicas: list[Int32] | None = None


@message
class ReassignableTopic:
    name: str
    partitions: list[ReassignablePartition]


@request(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    topics: list[ReassignableTopic]


@message
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16
    error_message: str | None


@message
class ReassignableTopicResponse:
    name: str
    partitions: list[ReassignablePartitionResponse]


@response(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, since(1), IGNORABLE] = True
    error_code: Int16
    error_message: str | None
    responses: list[ReassignableTopicResponse]
