"""Produce (key 0): append record batches to partitions."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import (
    IGNORABLE,
    Int16,
    Int32,
    Int64,
    Records,
    fresh,
    message,
    request,
    response,
    since,
    tag,
    until,
)


@message
class PartitionProduceData:
    index: Int32
    records: Records | None


@message
class TopicProduceData:
    name: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(13), IGNORABLE] = Uuid.ZERO
    partition_data: list[PartitionProduceData]


@request(key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@message
class BatchIndexAndErrorMessage:
    batch_index: Int32
    batch_index_error_message: str | None = None


@message
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@message
class PartitionProduceResponse:
    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, since(5), IGNORABLE] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8), IGNORABLE] = fresh()
    error_message: Annotated[str | None, since(8), IGNORABLE] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tag(0)] = fresh()


@message
class TopicProduceResponse:
    name: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(13), IGNORABLE] = Uuid.ZERO
    partition_responses: list[PartitionProduceResponse]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@response(key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tag(0)] = fresh()
