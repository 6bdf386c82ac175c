"""DescribeProducers (key 61): show the producers that are active in partitions."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, Int64, message, request, response


@message
class TopicRequest:
    name: str
    partition_indexes: list[Int32]


@request(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest]


@message
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@message
class PartitionResponse:
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    active_producers: list[ProducerState]


@message
class TopicResponse:
    name: str
    partitions: list[PartitionResponse]


@response(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse]
