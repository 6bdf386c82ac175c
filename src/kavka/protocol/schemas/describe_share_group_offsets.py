"""DescribeShareGroupOffsets (key 90): show where share groups start."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, message, request, response, since


@message
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: list[Int32]


@message
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@request(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup]


@message
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Annotated[Int64, since(1), IGNORABLE] = -1
    error_code: Int16
    error_message: str | None = None


@message
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


@message
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: str | None = None


@response(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
