"""InitializeShareGroupState: v0.

Behaviour:  the group coordinator has the state of share partitions initialized, or initialized anew; answered when that
            is committed.
Errors:     one per partition: 3 no such topic, 14, 16, 31, 42 not a partition, 124 the state is at a later epoch.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.broker.sharing import of_each
from kavka.model.errors import KafkaError
from kavka.model.share import SharePartitionKey
from kavka.protocol.schemas.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from kavka.runtime.share_states import ShareStates
from kavka.security.acl import Operation


@handler(
    InitializeShareGroupStateRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    Parts(("topics", "partitions"), ("results", "partitions")),
)
async def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, ctx: Context, states: ShareStates
) -> InitializeShareGroupStateResponse:
    """Begin the state of share partitions."""

    async def ask(key: SharePartitionKey, row: PartitionData) -> PartitionResult:
        await states.ask(
            key, lambda machine, now_ms: machine.initialize(key, row.state_epoch, row.start_offset, now_ms)
        )
        return PartitionResult(partition=row.partition, error_code=0)

    found = await of_each(request.group_id, request.topics, ask, failed)
    return InitializeShareGroupStateResponse(
        results=[InitializeStateResult(topic_id=topic.topic_id, partitions=rows) for topic, rows in found]
    )


def failed(partition: int, error: KafkaError) -> PartitionResult:
    """A partition that was refused."""
    return PartitionResult(partition=partition, error_code=error.code, error_message=str(error))
