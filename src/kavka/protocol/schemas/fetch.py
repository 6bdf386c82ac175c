"""Fetch (key 1): read record batches from partitions, with sessions (KIP-227) and topic ids (KIP-516)."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import (
    IGNORABLE,
    Int8,
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
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@message
class FetchPartition:
    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9), IGNORABLE] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5), IGNORABLE] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, since(17), tag(0), IGNORABLE] = Uuid.ZERO
    high_watermark: Annotated[Int64, since(18), tag(1), IGNORABLE] = 0x7FFFFFFFFFFFFFFF


@message
class FetchTopic:
    topic: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(13), IGNORABLE] = Uuid.ZERO
    partitions: list[FetchPartition]


@message
class ForgottenTopic:
    topic: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(13), IGNORABLE] = Uuid.ZERO
    partitions: list[Int32]


@request(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: Annotated[str | None, since(12), tag(0), IGNORABLE] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tag(1)] = fresh()
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, since(7), IGNORABLE] = 0
    session_epoch: Annotated[Int32, since(7), IGNORABLE] = -1
    topics: list[FetchTopic]
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = fresh()
    rack_id: Annotated[str, since(11), IGNORABLE] = ""


@message
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@message
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@message
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@message
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@message
class PartitionData:
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, since(5), IGNORABLE] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tag(0)] = fresh()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tag(1)] = fresh()
    snapshot_id: Annotated[SnapshotId, since(12), tag(2)] = fresh()
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records | None


@message
class FetchableTopicResponse:
    topic: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, since(13), IGNORABLE] = Uuid.ZERO
    partitions: list[PartitionData]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@response(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(7), IGNORABLE] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[FetchableTopicResponse]
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tag(0)] = fresh()
