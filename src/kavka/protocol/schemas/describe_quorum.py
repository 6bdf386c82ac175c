"""DescribeQuorum (key 55): show the voters and observers of the metadata quorum."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, UInt16, fresh, message, request, response, since


@message
class RequestPartitionData:
    partition_index: Int32


@message
class RequestTopicData:
    topic_name: str
    partitions: list[RequestPartitionData]


@request(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[RequestTopicData]


@message
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(2)] = Uuid.ZERO
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, since(1), IGNORABLE] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1), IGNORABLE] = -1


@message
class ResponsePartitionData:
    partition_index: Int32
    error_code: Int16
    error_message: Annotated[str | None, since(2), IGNORABLE] = ""
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


@message
class ResponseTopicData:
    topic_name: str
    partitions: list[ResponsePartitionData]


@message
class Listener:
    name: str
    host: str
    port: UInt16


@message
class Node:
    node_id: Int32
    listeners: list[Listener]


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: Int16
    error_message: Annotated[str | None, since(2), IGNORABLE] = ""
    topics: list[ResponseTopicData]
    nodes: Annotated[list[Node], since(2)] = fresh()
