"""ShareFetch (key 78): acquire records as a member of a share group (KIP-932)."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import (
    IGNORABLE,
    OWN_TAGS,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    message,
    request,
    response,
    since,
    tag,
)


@message
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]
    redelivery_delay_ms: Annotated[Int32, tag(OWN_TAGS), IGNORABLE] = -1


@message
class FetchPartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@message
class FetchTopic:
    topic_id: Uuid
    partitions: list[FetchPartition]


@message
class ForgottenTopic:
    topic_id: Uuid
    partitions: list[Int32]


@request(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Annotated[Int8, since(2), IGNORABLE] = 0
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


@message
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@message
class AcquiredRecords:
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@message
class PartitionData:
    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: list[AcquiredRecords]


@message
class ShareFetchableTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@response(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
