"""ListOffsets (key 2): find offsets by timestamp, or a log's first, last and other marked ones."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int8, Int16, Int32, Int64, message, request, response, since


@message
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4), IGNORABLE] = -1
    timestamp: Int64


@message
class ListOffsetsTopic:
    name: str
    partitions: list[ListOffsetsPartition]


@request(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: Int32
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, since(10), IGNORABLE] = 0


@message
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


@message
class ListOffsetsTopicResponse:
    name: str
    partitions: list[ListOffsetsPartitionResponse]


@response(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: Annotated[Int32, since(2), IGNORABLE] = 0
    topics: list[ListOffsetsTopicResponse]
