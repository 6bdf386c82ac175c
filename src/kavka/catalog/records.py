"""The events of `__remote_log_metadata`: their schemas and their bytes, which are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from kavka.model.errors import MalformedMessage
from kavka.model.types import Uuid
from kavka.protocol.frame import decode_frame_record, encode_frame_record
from kavka.protocol.primitives import Buffer
from kavka.protocol.schema import Int8, Int32, Int64, message, record, tag

VERSION: Final = 0


@message
class TopicIdPartitionEntry:
    name: str
    id: Uuid
    partition: Int32


@message
class RemoteLogSegmentIdEntry:
    topic_id_partition: TopicIdPartitionEntry
    id: Uuid


@message
class SegmentLeaderEpochEntry:
    leader_epoch: Int32
    offset: Int64


@record(key=0, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord:
    """A segment whose copy begins."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8
    txn_index_empty: Annotated[bool, tag(0)] = False  # absent means "it may have one" (KIP-1058)


@record(key=1, versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord:
    """A segment's next state."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8


@record(key=2, versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord:
    """The state of a partition's deletion."""

    topic_id_partition: TopicIdPartitionEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    remote_partition_delete_state: Int8


@record(key=3, versions="0", flexible="0+")
class RemoteLogSegmentMetadataSnapshotRecord:
    """A segment in a snapshot of one partition; no broker writes it into the topic."""

    segment_id: Uuid
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8
    txn_index_empty: Annotated[bool, tag(0)] = False


Event = (
    RemoteLogSegmentMetadataRecord
    | RemoteLogSegmentMetadataUpdateRecord
    | RemotePartitionDeleteMetadataRecord
    | RemoteLogSegmentMetadataSnapshotRecord
)

RECORDS: Final[Mapping[int, type[Any]]] = {
    0: RemoteLogSegmentMetadataRecord,
    1: RemoteLogSegmentMetadataUpdateRecord,
    2: RemotePartitionDeleteMetadataRecord,
    3: RemoteLogSegmentMetadataSnapshotRecord,
}


def encode_event(event: Event) -> bytes:
    """An event as the value of a record in the topic."""
    return encode_frame_record(event, VERSION)


def decode_event(data: Buffer) -> Event:
    """The event in a value; MalformedMessage or UnsupportedVersion for what is not one that we know."""
    event: Event = decode_frame_record(_class_of, data)
    return event


def _class_of(key: int) -> type[Any]:
    try:
        return RECORDS[key]
    except KeyError:
        raise MalformedMessage(f"there is no event of remote segments with key {key}") from None
