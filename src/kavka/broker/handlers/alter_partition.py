"""AlterPartition: v2-3.

Behaviour:  the leader of partitions changes their ISR; answers when the changes are committed. Up to v2
            the in-sync replicas come without their broker epochs, which are then not checked.
Errors:     one per partition: 100 unknown topic id, 3 unknown partition, 41 this controller knows less than the leader,
            74 older leader epoch, 95 older partition epoch, 42 not the leader or no possible ISR, 107 a replica that
            may not be in the ISR, 108 the change was made and moved the leadership. STALE_BROKER_EPOCH for the whole.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.isr import InSync, IsrRequest
from kavka.metadata.image import PartitionImage
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.protocol.schemas.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(AlterPartitionRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def alter_partition(
    request: AlterPartitionRequest, ctx: Context, controller: ControllerLoop
) -> AlterPartitionResponse:
    """Change in-sync replicas."""
    wanted = [isr_request(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
    decided = await controller.submit(
        lambda machine, _: machine.alter_partition(request.broker_id, request.broker_epoch, wanted)
    )
    outcomes = iter(decided)
    topics = [
        ResponseTopicData(
            topic_id=topic.topic_id,
            partitions=[result(partition.partition_index, next(outcomes)) for partition in topic.partitions],
        )
        for topic in request.topics
    ]
    return AlterPartitionResponse(error_code=0, topics=topics)


def isr_request(topic_id: Uuid, partition: RequestPartitionData) -> IsrRequest:
    """A partition's row as the controller takes it."""
    known = tuple(InSync(state.broker_id, state.broker_epoch) for state in partition.new_isr_with_epochs)
    return IsrRequest(
        topic_id,
        partition.partition_index,
        partition.leader_epoch,
        partition.partition_epoch,
        known or tuple(map(InSync, partition.new_isr)),
        partition.leader_recovery_state,
    )


def result(index: int, outcome: PartitionImage | KafkaError) -> ResponsePartitionData:
    """A partition's row of the answer."""
    if isinstance(outcome, KafkaError):
        return ResponsePartitionData(
            partition_index=index, error_code=outcome.code, leader_id=0, leader_epoch=0, isr=[], partition_epoch=0
        )
    return ResponsePartitionData(
        partition_index=index,
        error_code=0,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        leader_recovery_state=outcome.leader_recovery_state,
        partition_epoch=outcome.partition_epoch,
    )
