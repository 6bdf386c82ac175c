"""CreatePartitions (key 37): give topics more partitions."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, message, request, response


@message
class CreatePartitionsAssignment:
    broker_ids: list[Int32]


@message
class CreatePartitionsTopic:
    name: str
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


@request(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: bool


@message
class CreatePartitionsTopicResult:
    name: str
    error_code: Int16
    error_message: str | None = None


@response(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
