"""EndQuorumEpoch (key 54): a quorum leader steps down."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, UInt16, fresh, message, request, response, since, tag, until


@message
class ReplicaInfo:
    candidate_id: Int32
    candidate_directory_id: Uuid


@message
class RequestPartitionData:
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32
    preferred_successors: Annotated[list[Int32], until(0), IGNORABLE] = fresh()
    preferred_candidates: Annotated[list[ReplicaInfo], since(1), IGNORABLE] = fresh()


@message
class RequestTopicData:
    topic_name: str
    partitions: list[RequestPartitionData]


@message
class LeaderEndpoint:
    name: str
    host: str
    port: UInt16


@request(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    cluster_id: str | None = None
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


@response(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
    error_code: Int16
    topics: list[ResponseTopicData]
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = fresh()
