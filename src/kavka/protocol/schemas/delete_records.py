"""DeleteRecords (key 21): move the start of logs forward."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, Int64, message, request, response


@message
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64


@message
class DeleteRecordsTopic:
    name: str
    partitions: list[DeleteRecordsPartition]


@request(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@message
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


@message
class DeleteRecordsTopicResult:
    name: str
    partitions: list[DeleteRecordsPartitionResult]


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
