"""DescribeProducers: v0.

Behaviour:  the producer state of a replica, be it the leader or not: last sequences and ongoing transactions.
Errors:     one per partition; an invalid name is INVALID_TOPIC_EXCEPTION. Of a topic that is there the code says all.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.metadata.names import validate_topic_name
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kavka.replica.manager import ReplicaManager
from kavka.security.acl import Operation, ResourceType


@handler(DescribeProducersRequest, PER_ITEM, Parts(("topics", "partition_indexes"), ("topics", "partitions")))
async def describe_producers(
    request: DescribeProducersRequest, ctx: Context, replicas: ReplicaManager
) -> DescribeProducersResponse:
    """List the active producers of partitions."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[describe(ctx, topic.name, index, replicas) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ],
    )


def describe(ctx: Context, topic: str, index: int, replicas: ReplicaManager) -> PartitionResponse:
    """One partition's row."""
    try:
        ctx.require(Operation.READ, ResourceType.TOPIC, topic)
        validate_topic_name(topic)
        partition = replicas.find(topic, index)
    except KafkaError as error:
        words = None if topic in replicas.image.topics.by_name else str(error)
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=words, active_producers=[])
    return PartitionResponse(
        partition_index=index,
        error_code=0,
        active_producers=[
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.txn_first_offset,
            )
            for state in partition.producers
        ],
    )
