"""OffsetCommit (key 8): remember how far a group has read."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, message, request, response, since, until


@message
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6), IGNORABLE] = -1
    committed_metadata: str | None


@message
class OffsetCommitRequestTopic:
    name: Annotated[str, until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(10), IGNORABLE] = Uuid.ZERO
    partitions: list[OffsetCommitRequestPartition]


@request(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: Int32 = -1
    member_id: str
    group_instance_id: Annotated[str | None, since(7)] = None
    retention_time_ms: Annotated[Int64, until(4), IGNORABLE] = -1
    topics: list[OffsetCommitRequestTopic]


@message
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16


@message
class OffsetCommitResponseTopic:
    name: Annotated[str, until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(10), IGNORABLE] = Uuid.ZERO
    partitions: list[OffsetCommitResponsePartition]


@response(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: Annotated[Int32, since(3), IGNORABLE] = 0
    topics: list[OffsetCommitResponseTopic]
