"""InitializeShareGroupState (key 83): start keeping the state of share partitions."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, Int64, message, request, response


@message
class PartitionData:
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@message
class InitializeStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: str
    topics: list[InitializeStateData]


@message
class PartitionResult:
    partition: Int32
    error_code: Int16
    error_message: str | None = None


@message
class InitializeStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult]
