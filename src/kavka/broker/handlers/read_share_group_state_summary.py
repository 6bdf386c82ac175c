"""ReadShareGroupStateSummary: v0-1.

Behaviour:  start offsets of share partitions, and how many records after them are complete; -1 for those without a
            state.
Errors:     one per partition: 3 no such topic, 14, 16, 31, 42 not a partition.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.broker.sharing import of_each
from kavka.model.errors import KafkaError
from kavka.model.share import SharePartitionKey
from kavka.protocol.schemas.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kavka.runtime.share_states import ShareStates
from kavka.security.acl import Operation


@handler(
    ReadShareGroupStateSummaryRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    Parts(("topics", "partitions"), ("results", "partitions")),
)
async def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, ctx: Context, states: ShareStates
) -> ReadShareGroupStateSummaryResponse:
    """Tell where share partitions stand."""

    async def ask(key: SharePartitionKey, row: PartitionData) -> PartitionResult:
        found = await states.ask(key, lambda machine, now_ms: machine.summary(key))
        return PartitionResult(
            partition=row.partition,
            error_code=0,
            state_epoch=found.state_epoch,
            leader_epoch=found.leader_epoch,
            start_offset=found.start_offset,
            delivery_complete_count=found.delivery_complete_count,
        )

    found = await of_each(request.group_id, request.topics, ask, failed)
    return ReadShareGroupStateSummaryResponse(
        results=[ReadStateSummaryResult(topic_id=topic.topic_id, partitions=rows) for topic, rows in found]
    )


def failed(partition: int, error: KafkaError) -> PartitionResult:
    """A partition that was refused."""
    return PartitionResult(
        partition=partition,
        error_code=error.code,
        error_message=str(error),
        state_epoch=0,
        leader_epoch=0,
        start_offset=0,
    )
