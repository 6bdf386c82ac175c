"""Offsets: OffsetCommit, OffsetFetch, OffsetDelete, and those that are forgotten by themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from kavka.coordinator.offsets.records import OffsetCommitValue
from kavka.coordinator.offsets.rules import Ageing, CheckPartition
from kavka.coordinator.offsets.state import CommittedOffset, OffsetsState, PartitionId, offset_entry, without_offset
from kavka.coordinator.record import Record
from kavka.coordinator.settings import CoordinatorSettings
from kavka.model.errors import GroupSubscribedToTopic, OffsetMetadataTooLarge, UnstableOffsetCommit
from kavka.model.types import Uuid
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kavka.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kavka.protocol.schemas.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

_NO_RETENTION: Final = -1
_LATEST_MS: Final = (1 << 63) - 1


# -- OffsetCommit ---------------------------------------------------------------------------------


def commit(
    request: OffsetCommitRequest, settings: CoordinatorSettings, check: CheckPartition | None, now_ms: int
) -> tuple[OffsetCommitResponse, list[Record]]:
    """Remember offsets; the topics have their names, and their ids where they are known."""
    records: list[Record] = []
    topics = []
    retention = request.retention_time_ms
    expire_at_ms = -1 if retention == _NO_RETENTION else max(0, min(now_ms + retention, _LATEST_MS))
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            error_code = 0
            if _is_too_long(partition.committed_metadata, settings.offset_metadata_max_bytes):
                error_code = OffsetMetadataTooLarge.code
            else:
                if check is not None:
                    check(topic.name, topic.topic_id, partition.partition_index)
                place = PartitionId(request.group_id, topic.name, partition.partition_index)
                records.append(offset_entry(place, _value(partition, topic.topic_id, now_ms, expire_at_ms)))
            partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error_code)
            )
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return OffsetCommitResponse(topics=topics), records


def _value(
    partition: OffsetCommitRequestPartition, topic_id: Uuid, now_ms: int, expire_at_ms: int
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_at_ms,
        topic_id=topic_id,
    )


def _is_too_long(metadata: str | None, limit: int) -> bool:
    """Whether a text has too many characters, counted as Java counts them."""
    if metadata is None or 2 * len(metadata) <= limit:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit


# -- OffsetFetch ----------------------------------------------------------------------------------


def fetch(offsets: OffsetsState, request: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
    """How far a group has read some partitions, or all that it has committed for.

    Where `stable` is asked for, a partition that an open transaction commits for is refused for now.
    """
    topics = []
    if request.topics is None:
        for name, known in offsets.committed.get(request.group_id, {}).items():
            found = [_fetched(offsets, request.group_id, name, Uuid.ZERO, each, stable) for each in known]
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=Uuid.ZERO, partitions=found))
    else:
        for topic in request.topics:
            found = [
                _fetched(offsets, request.group_id, topic.name, topic.topic_id, each, stable)
                for each in topic.partition_indexes
            ]
            topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=found))
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)


def _fetched(
    offsets: OffsetsState, group: str, topic: str, topic_id: Uuid, partition: int, stable: bool
) -> OffsetFetchResponsePartitions:
    found = offsets.get(group, topic, partition)
    unstable = stable and offsets.is_open(group, topic, partition)
    if unstable or found is None or _is_other(found.topic_id, topic_id):
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=UnstableOffsetCommit.code if unstable else 0,
        )
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=0,
    )


def _is_other(committed: Uuid, asked: Uuid) -> bool:
    """Whether an offset belongs to an earlier topic of the same name."""
    return Uuid.ZERO not in (committed, asked) and committed != asked


# -- OffsetDelete and forgetting ------------------------------------------------------------------


def delete(
    offsets: OffsetsState, request: OffsetDeleteRequest, is_subscribed: Callable[[str], bool]
) -> tuple[OffsetDeleteResponse, list[Record]]:
    """Forget offsets, except of topics that the group is reading."""
    records = []
    topics = []
    for topic in request.topics:
        refused = GroupSubscribedToTopic.code if is_subscribed(topic.name) else 0
        indexes = [partition.partition_index for partition in topic.partitions]
        if not refused:
            places = [PartitionId(request.group_id, topic.name, index) for index in indexes]
            records += [
                without_offset(place) for place in places if offsets.get(*place) is not None or offsets.is_open(*place)
            ]
        partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=refused) for index in indexes]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return OffsetDeleteResponse(error_code=0, topics=topics), records


def forget_group(offsets: OffsetsState, group_id: str) -> Iterator[Record]:
    """Forget all offsets of a group."""
    return map(without_offset, offsets.of_group(group_id))


def forget_topics(offsets: OffsetsState, topics: Collection[tuple[str, Uuid]]) -> Iterator[Record]:
    """Forget the offsets of topics that were deleted, but not those of another topic that has the name now."""
    for name, topic_id in topics:
        places = {
            PartitionId(group, name, partition)
            for group, known in offsets.committed.items()
            for partition, found in known.get(name, {}).items()
            if found.topic_id in (Uuid.ZERO, topic_id)
        }
        for pending in offsets.pending.values():
            places |= {
                place
                for place, found in pending.items()
                if place.topic == name and found.topic_id in (Uuid.ZERO, topic_id)
            }
        yield from map(without_offset, sorted(places))


# -- expiry ---------------------------------------------------------------------------------------


def expire(
    offsets: OffsetsState, group_id: str, ageing: Ageing | None, retention_ms: int, now_ms: int
) -> tuple[list[Record], bool]:
    """The offsets of a group that are too old, and whether none is left."""
    known = offsets.committed.get(group_id)
    if known is None:
        return [], group_id not in offsets.open
    if ageing is None:
        return [], False
    records = []
    left = False
    for topic, partitions in known.items():
        read = ageing.is_subscribed(topic)
        for partition, found in partitions.items():
            place = PartitionId(group_id, topic, partition)
            if read or offsets.is_open(*place) or not _is_old(found, ageing.since(found), retention_ms, now_ms):
                left = True
            else:
                records.append(without_offset(place))
    return records, not left and group_id not in offsets.open


def _is_old(found: CommittedOffset, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if found.expire_timestamp_ms != -1:  # old clients say it themselves
        return now_ms >= found.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms
