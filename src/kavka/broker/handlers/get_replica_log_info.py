"""GetReplicaLogInfo: v0.

Behaviour:  tells a controller the log end offsets of this broker's replicas (KIP-966). Only nodes of ours ask for it.
Errors:     one per partition: 3 or 100 for one that is not here, 56 where its log cannot be read.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.protocol.schemas.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitionLogInfo,
)
from kavka.replica.manager import ReplicaManager
from kavka.security.acl import Operation


@handler(
    GetReplicaLogInfoRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    Parts(("topic_partitions", "partitions"), ("topic_partition_log_info_list", "partition_log_info"), 400),
)
async def get_replica_log_info(
    request: GetReplicaLogInfoRequest, ctx: Context, replicas: ReplicaManager
) -> GetReplicaLogInfoResponse:
    """Show how far replicas are."""
    topics = [
        TopicPartitionLogInfo(
            topic_id=topic.topic_id,
            partition_log_info=[log_info(topic.topic_id, index, replicas) for index in topic.partitions],
        )
        for topic in request.topic_partitions
    ]
    return GetReplicaLogInfoResponse(error_code=0, topic_partition_log_info_list=topics)


def log_info(topic_id: Uuid, index: int, replicas: ReplicaManager) -> PartitionLogInfo:
    """One partition's row."""
    try:
        partition = replicas.find(topic_id, index)
    except KafkaError as error:
        return PartitionLogInfo(
            partition=index,
            last_written_leader_epoch=-1,
            current_leader_epoch=-1,
            log_end_offset=-1,
            error_code=error.code,
            error_message=error.message or None,
        )
    epochs = partition.lineage
    return PartitionLogInfo(
        partition=index,
        last_written_leader_epoch=epochs[-1][0] if epochs else -1,
        current_leader_epoch=partition.leader_epoch,
        log_end_offset=partition.log_end_offset,
        error_code=0,
        error_message=None,
    )
