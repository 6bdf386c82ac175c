"""FetchSnapshot (key 59): read a piece of a metadata snapshot."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import (
    IGNORABLE,
    Int16,
    Int32,
    Int64,
    Records,
    UInt16,
    fresh,
    message,
    request,
    response,
    since,
    tag,
)


@message
class SnapshotId:
    end_offset: Int64
    epoch: Int32


@message
class RequestPartitionSnapshot:
    partition: Int32
    current_leader_epoch: Int32
    snapshot_id: SnapshotId
    position: Int64
    replica_directory_id: Annotated[Uuid, since(1), tag(0), IGNORABLE] = Uuid.ZERO


@message
class RequestTopicSnapshot:
    name: str
    partitions: list[RequestPartitionSnapshot]


@request(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    cluster_id: Annotated[str | None, tag(0)] = None
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: list[RequestTopicSnapshot]


@message
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@message
class ResponsePartitionSnapshot:
    index: Int32
    error_code: Int16
    snapshot_id: SnapshotId
    current_leader: Annotated[LeaderIdAndEpoch, tag(0)] = fresh()
    size: Int64
    position: Int64
    unaligned_records: Records


@message
class ResponseTopicSnapshot:
    name: str
    partitions: list[ResponsePartitionSnapshot]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: UInt16


@response(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: list[ResponseTopicSnapshot]
    node_endpoints: Annotated[list[NodeEndpoint], since(1), tag(0)] = fresh()
