"""ReadShareGroupState (key 84): read the state of share partitions."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, OWN_TAGS, Int8, Int16, Int32, Int64, message, request, response, tag


@message
class PartitionData:
    partition: Int32
    leader_epoch: Int32


@message
class ReadStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    group_id: str
    topics: list[ReadStateData]


@message
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message
class DeadLetterProducer:
    producer_id: Int64
    sequence: Int32
    topic_id: Uuid
    partition: Int32
    number: Int64


@message
class PartitionResult:
    partition: Int32
    error_code: Int16
    error_message: str | None = None
    state_epoch: Int32
    start_offset: Int64
    state_batches: list[StateBatch]
    dead_letters: Annotated[DeadLetterProducer | None, tag(OWN_TAGS), IGNORABLE] = None


@message
class ReadStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    results: list[ReadStateResult]
