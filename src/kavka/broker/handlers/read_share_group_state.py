"""ReadShareGroupState: v0.

Behaviour:  the leader of a partition reads a group's state; a later leader epoch fences the leaders before it.
Errors:     one per partition: 3 no such topic, 14, 16, 31, 42 not a partition or never initialized, 74 a later
            leader has read it.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.broker.sharing import of_each
from kavka.coordinator.share_state.state import write_producer
from kavka.model.errors import KafkaError
from kavka.model.share import SharePartitionKey
from kavka.protocol.schemas.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from kavka.runtime.share_states import ShareStates
from kavka.security.acl import Operation


@handler(
    ReadShareGroupStateRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    Parts(("topics", "partitions"), ("results", "partitions")),
)
async def read_share_group_state(
    request: ReadShareGroupStateRequest, ctx: Context, states: ShareStates
) -> ReadShareGroupStateResponse:
    """Tell a leader what is known of share partitions."""

    async def ask(key: SharePartitionKey, row: PartitionData) -> PartitionResult:
        found = await states.ask(key, lambda machine, now_ms: machine.read(key, row.leader_epoch, now_ms))
        return PartitionResult(
            partition=row.partition,
            error_code=0,
            state_epoch=found.state_epoch,
            start_offset=found.start_offset,
            state_batches=[
                StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in found.batches
            ],
            dead_letters=write_producer(found.dead_letters),
        )

    found = await of_each(request.group_id, request.topics, ask, failed)
    return ReadShareGroupStateResponse(
        results=[ReadStateResult(topic_id=topic.topic_id, partitions=rows) for topic, rows in found]
    )


def failed(partition: int, error: KafkaError) -> PartitionResult:
    """A partition that was refused."""
    return PartitionResult(
        partition=partition,
        error_code=error.code,
        error_message=str(error),
        state_epoch=0,
        start_offset=0,
        state_batches=[],
    )
