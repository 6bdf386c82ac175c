"""BeginQuorumEpoch (key 53): a new quorum leader announces itself."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, UInt16, fresh, message, request, response, since, tag


@message
class RequestPartitionData:
    partition_index: Int32
    voter_directory_id: Annotated[Uuid, since(1), IGNORABLE] = Uuid.ZERO
    leader_id: Int32
    leader_epoch: Int32


@message
class RequestTopicData:
    topic_name: str
    partitions: list[RequestPartitionData]


@message
class LeaderEndpoint:
    name: str
    host: str
    port: UInt16


@request(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    cluster_id: str | None = None
    voter_id: Annotated[Int32, since(1), IGNORABLE] = -1
    topics: list[RequestTopicData]
    leader_endpoints: Annotated[list[LeaderEndpoint], since(1), IGNORABLE] = fresh()


@message
class ResponsePartitionData:
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32


@message
class ResponseTopicData:
    topic_name: str
    partitions: list[ResponsePartitionData]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: UInt16


@response(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    error_code: Int16
    topics: list[ResponseTopicData]
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = fresh()
