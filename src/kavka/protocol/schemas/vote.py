"""Vote (key 52): ask for votes, and for pre-votes (KIP-996), in the metadata quorum."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, UInt16, fresh, message, request, response, since, tag


@message
class RequestPartitionData:
    partition_index: Int32
    replica_epoch: Int32
    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(1), IGNORABLE] = Uuid.ZERO
    voter_directory_id: Annotated[Uuid, since(1), IGNORABLE] = Uuid.ZERO
    last_offset_epoch: Int32
    last_offset: Int64
    pre_vote: Annotated[bool, since(2)] = False


@message
class RequestTopicData:
    topic_name: str
    partitions: list[RequestPartitionData]


@request(key=52, versions="0-2", flexible="0+")
class VoteRequest:
    cluster_id: str | None = None
    voter_id: Annotated[Int32, since(1), IGNORABLE] = -1
    topics: list[RequestTopicData]


@message
class ResponsePartitionData:
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    vote_granted: bool


@message
class ResponseTopicData:
    topic_name: str
    partitions: list[ResponsePartitionData]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: UInt16


@response(key=52, versions="0-2", flexible="0+")
class VoteResponse:
    error_code: Int16
    topics: list[ResponseTopicData]
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = fresh()
