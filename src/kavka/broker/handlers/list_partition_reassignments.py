"""ListPartitionReassignments: v0.

Behaviour:  the partitions that are being reassigned: of all topics, or of those listed; unknown ones are left out.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.protocol.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(ListPartitionReassignmentsRequest, needs=on_cluster(Operation.DESCRIBE))
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: Context, controller: ControllerLoop
) -> ListPartitionReassignmentsResponse:
    """List the moves under way."""
    wanted = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    moving = await controller.submit(lambda machine, _: machine.list_reassignments(wanted))
    topics = [
        OngoingTopicReassignment(
            name=name,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding),
                    removing_replicas=list(partition.removing),
                )
                for index, partition in rows
            ],
        )
        for name, rows in moving
    ]
    return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=topics)
