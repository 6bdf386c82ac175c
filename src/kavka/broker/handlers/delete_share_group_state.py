"""DeleteShareGroupState: v0.

Behaviour:  the group coordinator has the state of share partitions deleted; no state counts as deleted.
Errors:     one per partition: 3 no such topic, 14, 16, 31, 42 not a partition.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.broker.sharing import of_each
from kavka.model.errors import KafkaError
from kavka.model.share import SharePartitionKey
from kavka.protocol.schemas.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from kavka.runtime.share_states import ShareStates
from kavka.security.acl import Operation


@handler(
    DeleteShareGroupStateRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    Parts(("topics", "partitions"), ("results", "partitions")),
)
async def delete_share_group_state(
    request: DeleteShareGroupStateRequest, ctx: Context, states: ShareStates
) -> DeleteShareGroupStateResponse:
    """Forget the state of share partitions."""

    async def ask(key: SharePartitionKey, row: PartitionData) -> PartitionResult:
        await states.ask(key, lambda machine, now_ms: machine.delete(key))
        return PartitionResult(partition=row.partition, error_code=0)

    found = await of_each(request.group_id, request.topics, ask, failed)
    return DeleteShareGroupStateResponse(
        results=[DeleteStateResult(topic_id=topic.topic_id, partitions=rows) for topic, rows in found]
    )


def failed(partition: int, error: KafkaError) -> PartitionResult:
    """A partition that was refused."""
    return PartitionResult(partition=partition, error_code=error.code, error_message=str(error))
