"""AssignReplicasToDirs: v0.

Behaviour:  a broker says in which of its log directories replicas are, so that the controller knows what is lost with a
            directory; a replica in one that is offline already leaves the ISR at once.
Errors:     one per partition: 100 unknown topic id, 3 unknown partition, 6 no replica of this broker. For the whole:
            STALE_BROKER_EPOCH, UNSUPPORTED_VERSION before metadata.version 3.7-IV2.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.directories import InDirectory
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(AssignReplicasToDirsRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, ctx: Context, controller: ControllerLoop
) -> AssignReplicasToDirsResponse:
    """Remember where replicas are."""
    replicas = [
        InDirectory(directory.id, topic.topic_id, partition.partition_index)
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    decided = await controller.submit(
        lambda machine, _: machine.assign_replicas_to_dirs(request.broker_id, request.broker_epoch, replicas)
    )
    outcomes = iter(decided)
    directories = [
        ResponseDirectoryData(
            id=directory.id,
            topics=[
                ResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[result(partition.partition_index, next(outcomes)) for partition in topic.partitions],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    return AssignReplicasToDirsResponse(error_code=0, directories=directories)


def result(index: int, error: KafkaError | None) -> ResponsePartitionData:
    """A partition's row."""
    return ResponsePartitionData(partition_index=index, error_code=0 if error is None else error.code)
