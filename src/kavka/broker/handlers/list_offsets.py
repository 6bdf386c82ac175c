"""ListOffsets: v1-11.

Behaviour:  -1 latest, -2 earliest, -3 largest timestamp (v7+), -4 earliest local (v8+), -5 latest tiered (v9+),
            -6 earliest not yet tiered (v11+); any other is a time, answered by the first record at or after it.
Errors:     one per partition; a partition named twice is INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.model.errors import (
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
)
from kavka.model.settings.tiered import REMOTE_LIST_OFFSETS_REQUEST_TIMEOUT_MS
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.tier import result_of
from kavka.security.acl import Operation, ResourceType

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

CONSUMER = -1
DEBUGGING = -2
READ_COMMITTED = 1


@handler(ListOffsetsRequest, needs=PER_ITEM)
async def list_offsets(request: ListOffsetsRequest, ctx: Context, replicas: ReplicaManager) -> ListOffsetsResponse:
    """Find offsets by time or by one of the special timestamps."""
    times: Counter[tuple[str, int]] = Counter()
    topics = []
    turn = Turn()
    for topic in request.topics:
        for row in topic.partitions:
            times[topic.name, row.partition_index] += 1
            await turn.breathe()
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            await turn.breathe()
            try:
                ctx.require(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
                if times[topic.name, row.partition_index] > 1:
                    raise InvalidRequest(f"{topic.name}-{row.partition_index} is named twice")
                if row.timestamp < 0 and ctx.api_version < SINCE_VERSION.get(row.timestamp, 99):
                    raise UnsupportedVersion(f"timestamp {row.timestamp} is not known to version {ctx.api_version}")
                partition = replicas.find(topic.name, row.partition_index)
                wait_ms = max(request.timeout_ms, 0) or replicas.values[REMOTE_LIST_OFFSETS_REQUEST_TIMEOUT_MS]
                rows.append(await answer(partition, row, request, ctx.api_version, turn, wait_ms))
            except KafkaError as error:
                if isinstance(error, OffsetNotAvailable) and ctx.api_version < 5:
                    error = LeaderNotAvailable(error.message)
                rows.append(ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=error.code))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


async def answer(
    partition: Partition,
    row: ListOffsetsPartition,
    request: ListOffsetsRequest,
    version: int,
    turn: Turn,
    wait_ms: int,
) -> ListOffsetsPartitionResponse:
    """One partition's row."""
    if request.replica_id == DEBUGGING:
        partition.require_epoch(row.current_leader_epoch)
    else:
        partition.require_leader(row.current_leader_epoch)
    found = await look_up(partition, row.timestamp, request, turn, wait_ms)
    timestamp, offset, epoch = found or (-1, -1, -1)
    return ListOffsetsPartitionResponse(
        partition_index=row.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if version >= 4 else -1,
    )


async def look_up(
    partition: Partition, timestamp: int, request: ListOffsetsRequest, turn: Turn, wait_ms: int
) -> tuple[int, int, int] | None:
    """Timestamp, offset and leader epoch of what was asked for, if there is any."""
    client = request.replica_id == CONSUMER
    if not client:
        end = partition.log_end_offset
    elif request.isolation_level == READ_COMMITTED:
        end = partition.last_stable_offset
    else:
        end = partition.high_watermark
    if timestamp == EARLIEST:
        return partition.earliest()
    if timestamp == EARLIEST_LOCAL:
        return partition.earliest_local()
    unsettled = client and partition.behind_epoch_start
    if timestamp == LATEST:
        if unsettled:
            raise OffsetNotAvailable(f"{partition.topic_partition} has a new leader that has not caught up yet")
        return -1, end, partition.leader_epoch
    if timestamp == LATEST_TIERED:
        return partition.latest_tiered()
    if timestamp == EARLIEST_PENDING_UPLOAD:
        return partition.earliest_not_tiered()
    by_time, newest = partition.search_timestamp, partition.search_max_timestamp
    search = newest() if timestamp == MAX_TIMESTAMP else by_time(timestamp)
    found = await result_of(search, turn, wait_ms)
    if found is not None and found.offset < end:
        return found.timestamp, found.offset, found.leader_epoch
    if unsettled:
        raise OffsetNotAvailable(f"{partition.topic_partition} has a new leader that has not caught up yet")
    return None
