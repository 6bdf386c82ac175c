"""AlterShareGroupOffsets (key 91): move where a share group starts."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, Int64, message, request, response


@message
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32
    start_offset: Int64


@message
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@request(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]


@message
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None


@message
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@response(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
