"""AlterPartitionReassignments: v0-1.

Behaviour:  starts the reassignment of partitions, or (replicas null) cancels one; answers when that is committed, not
            when the new replicas are in sync. From v1 a client can say that the replication factor must stay.
Errors:     one per partition: 3 unknown, 39 no possible assignment, 38 another replication factor, 85 nothing to
            cancel.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.controller.reassignment import Reassign
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(
    AlterPartitionReassignmentsRequest,
    on_cluster(Operation.ALTER),
    Parts(("topics", "partitions"), ("responses", "partitions"), 200),
)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: Context, controller: ControllerLoop
) -> AlterPartitionReassignmentsResponse:
    """Move partitions."""
    allowed = request.allow_replication_factor_change
    wanted = [
        Reassign(
            topic.name, partition.partition_index, None if partition.replicas is None else tuple(partition.replicas)
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    decided = await controller.submit(
        lambda machine, _: machine.alter_reassignments(wanted, allow_replication_change=allowed)
    )
    outcomes = iter(decided)
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[result(partition.partition_index, next(outcomes)) for partition in topic.partitions],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed,
        error_code=0,
        error_message=None,
        responses=responses,
    )


def result(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    """A partition's row."""
    if error is None:
        return ReassignablePartitionResponse(partition_index=index, error_code=0, error_message=None)
    return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
