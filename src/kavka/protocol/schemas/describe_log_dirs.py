"""DescribeLogDirs (key 35): show log directories and the sizes of the replicas in them."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, message, request, response, since


@message
class DescribableLogDirTopic:
    topic: str
    partitions: list[Int32]


@request(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None


@message
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: bool


@message
class DescribeLogDirsTopic:
    name: str
    partitions: list[DescribeLogDirsPartition]


@message
class DescribeLogDirsResult:
    error_code: Int16
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: Annotated[Int64, since(4), IGNORABLE] = -1
    usable_bytes: Annotated[Int64, since(4), IGNORABLE] = -1
    is_cordoned: Annotated[bool, since(5), IGNORABLE] = False


@response(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3), IGNORABLE] = 0
    results: list[DescribeLogDirsResult]
