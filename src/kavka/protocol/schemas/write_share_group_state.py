"""WriteShareGroupState (key 85): write the state of share partitions."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, OWN_TAGS, Int8, Int16, Int32, Int64, message, request, response, since, tag
from kavka.protocol.schemas.read_share_group_state import DeadLetterProducer


@message
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message
class PartitionData:
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, since(1), IGNORABLE] = -1
    state_batches: list[StateBatch]
    dead_letters: Annotated[DeadLetterProducer | None, tag(OWN_TAGS), IGNORABLE] = None


@message
class WriteStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@request(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    group_id: str
    topics: list[WriteStateData]


@message
class PartitionResult:
    partition: Int32
    error_code: Int16
    error_message: str | None = None


@message
class WriteStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@response(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    results: list[WriteStateResult]
