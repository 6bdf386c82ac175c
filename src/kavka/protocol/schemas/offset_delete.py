"""OffsetDelete (key 47): forget a group's offsets."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, message, request, response


@message
class OffsetDeleteRequestPartition:
    partition_index: Int32


@message
class OffsetDeleteRequestTopic:
    name: str
    partitions: list[OffsetDeleteRequestPartition]


@request(key=47, versions="0", flexible="none")
class OffsetDeleteRequest:
    group_id: str
    topics: list[OffsetDeleteRequestTopic]


@message
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: Int16


@message
class OffsetDeleteResponseTopic:
    name: str
    partitions: list[OffsetDeleteResponsePartition]


@response(key=47, versions="0", flexible="none")
class OffsetDeleteResponse:
    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
