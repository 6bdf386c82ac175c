"""Where a follower begins whose leader has what it lacks in a tier only: what it asks for (KIP-405, KIP-1023)."""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.client.connection import Connection
from kavka.model.errors import ReplicaNotAvailable, raise_for
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kavka.protocol.schemas.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kavka.replica.partition import Partition

EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
EARLIEST_PENDING_UPLOAD: Final = -6


class TieredStart(NamedTuple):
    """Before which offset everything is in the tier, and what is known of it."""

    log_start_offset: int
    last_offset: int
    """The last offset that the tier is to have."""
    leader_epoch: int
    """The leader epoch that wrote it."""


async def tiered_start(
    connection: Connection, partition: Partition, node_id: int, *, after_tiered: bool
) -> TieredStart:
    """Ask the leader; raises KafkaError. `after_tiered` is to begin after all that is in the tier, if anything is."""
    start = await _offset(connection, partition, node_id, EARLIEST)
    found = await _offset(connection, partition, node_id, EARLIEST_PENDING_UPLOAD) if after_tiered else None
    if found is None or found.offset < 0:
        found = await _offset(connection, partition, node_id, EARLIEST_LOCAL)
    if found.offset <= partition.log_end_offset:
        raise ReplicaNotAvailable(f"the leader begins at {found.offset}, not after the end of this log")
    last, epoch = found.offset - 1, found.leader_epoch
    if epoch > 0:
        before = await _end_of_epoch(connection, partition, node_id, epoch - 1)
        if before.end_offset > last:
            epoch = before.leader_epoch
    return TieredStart(start.offset, last, max(epoch, 0))


async def _offset(
    connection: Connection, partition: Partition, node_id: int, which: int
) -> ListOffsetsPartitionResponse:
    name, index = partition.topic_partition
    row = ListOffsetsPartition(partition_index=index, current_leader_epoch=partition.leader_epoch, timestamp=which)
    request = ListOffsetsRequest(replica_id=node_id, topics=[ListOffsetsTopic(name=name, partitions=[row])])
    answer = (await connection.request(request, ListOffsetsResponse)).topics[0].partitions[0]
    raise_for(answer.error_code)
    return answer


async def _end_of_epoch(connection: Connection, partition: Partition, node_id: int, epoch: int) -> EpochEndOffset:
    name, index = partition.topic_partition
    row = OffsetForLeaderPartition(partition=index, current_leader_epoch=partition.leader_epoch, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=node_id, topics=[OffsetForLeaderTopic(topic=name, partitions=[row])]
    )
    answer = (await connection.request(request, OffsetForLeaderEpochResponse)).topics[0].partitions[0]
    raise_for(answer.error_code)
    return answer
