"""ReadShareGroupStateSummary (key 87): read the start offsets of share partitions."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, message, request, response, since


@message
class PartitionData:
    partition: Int32
    leader_epoch: Int32


@message
class ReadStateSummaryData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    group_id: str
    topics: list[ReadStateSummaryData]


@message
class PartitionResult:
    partition: Int32
    error_code: Int16
    error_message: str | None = None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, since(1), IGNORABLE] = -1


@message
class ReadStateSummaryResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult]
