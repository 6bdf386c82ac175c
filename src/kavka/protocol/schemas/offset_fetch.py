"""OffsetFetch (key 9): ask how far a group has read."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import (
    IGNORABLE,
    Int16,
    Int32,
    Int64,
    between,
    fresh,
    message,
    null_since,
    request,
    response,
    since,
    until,
)


@message
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: list[Int32]


@message
class OffsetFetchRequestTopics:
    name: Annotated[str, until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(10), IGNORABLE] = Uuid.ZERO
    partition_indexes: list[Int32]


@message
class OffsetFetchRequestGroup:
    group_id: str
    member_id: Annotated[str | None, since(9), IGNORABLE] = None
    member_epoch: Annotated[Int32, since(9), IGNORABLE] = -1
    topics: list[OffsetFetchRequestTopics] | None


@request(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), null_since(2)] = fresh()
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = fresh()
    require_stable: Annotated[bool, since(7)] = False


@message
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(5), IGNORABLE] = -1
    metadata: str | None
    error_code: Int16


@message
class OffsetFetchResponseTopic:
    name: str
    partitions: list[OffsetFetchResponsePartition]


@message
class OffsetFetchResponsePartitions:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: str | None
    error_code: Int16


@message
class OffsetFetchResponseTopics:
    name: Annotated[str, until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(10), IGNORABLE] = Uuid.ZERO
    partitions: list[OffsetFetchResponsePartitions]


@message
class OffsetFetchResponseGroup:
    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@response(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: Annotated[Int32, since(3), IGNORABLE] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = fresh()
    error_code: Annotated[Int16, between(2, 7), IGNORABLE] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = fresh()
