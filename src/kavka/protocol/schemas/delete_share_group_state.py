"""DeleteShareGroupState (key 86): forget the state of share partitions."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, message, request, response


@message
class PartitionData:
    partition: Int32


@message
class DeleteStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: str
    topics: list[DeleteStateData]


@message
class PartitionResult:
    partition: Int32
    error_code: Int16
    error_message: str | None = None


@message
class DeleteStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult]
