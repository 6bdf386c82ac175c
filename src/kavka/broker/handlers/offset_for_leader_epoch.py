"""OffsetForLeaderEpoch: v2-4.

Behaviour:  the end offset of the largest epoch not above the asked one; -1/-1 when none is known.
Errors:     one per partition.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kavka.replica.manager import ReplicaManager
from kavka.security.acl import Operation, ResourceType


@handler(OffsetForLeaderEpochRequest, PER_ITEM, Parts(("topics", "partitions"), ("topics", "partitions")))
async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, ctx: Context, replicas: ReplicaManager
) -> OffsetForLeaderEpochResponse:
    """Say where leader epochs end, so that a consumer can tell whether its log was cut."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[end_offset(ctx, topic.topic, row, replicas) for row in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def end_offset(ctx: Context, topic: str, row: OffsetForLeaderPartition, replicas: ReplicaManager) -> EpochEndOffset:
    """One partition's row."""
    try:
        if not ctx.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, asked=False):
            ctx.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = replicas.find(topic, row.partition)
        partition.require_leader(row.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=row.partition)
    epoch, end = partition.end_of_epoch(row.leader_epoch)
    return EpochEndOffset(error_code=0, partition=row.partition, leader_epoch=epoch, end_offset=end)
