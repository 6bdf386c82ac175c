"""AlterPartition (key 56): a partition leader changes its in-sync replicas."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import Int8, Int16, Int32, Int64, fresh, message, request, response, since, until


@message
class BrokerState:
    broker_id: Int32
    broker_epoch: Int64 = -1


@message
class RequestPartitionData:
    partition_index: Int32
    leader_epoch: Int32
    new_isr: Annotated[list[Int32], until(2)] = fresh()
    new_isr_with_epochs: Annotated[list[BrokerState], since(3)] = fresh()
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


@message
class RequestTopicData:
    topic_id: Uuid
    partitions: list[RequestPartitionData]


@request(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: list[RequestTopicData]


@message
class ResponsePartitionData:
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


@message
class ResponseTopicData:
    topic_id: Uuid
    partitions: list[ResponsePartitionData]


@response(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: list[ResponseTopicData]
