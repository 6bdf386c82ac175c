"""WriteShareGroupState: v0-1.

Behaviour:  the leader of a partition writes what a group's members said of records; answered when that is committed.
Errors:     one per partition: 3 no such topic, 14, 16, 31, 42 not a partition, never initialized or no state of
            records, 74 a later leader, 124 the state is at a later epoch.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.broker.sharing import of_each
from kavka.coordinator.share_state.machine import StateChange
from kavka.coordinator.share_state.state import read_producer
from kavka.model.errors import KafkaError
from kavka.model.share import SharePartitionKey, StateBatch
from kavka.protocol.schemas.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from kavka.runtime.share_states import ShareStates
from kavka.security.acl import Operation


@handler(
    WriteShareGroupStateRequest,
    on_cluster(Operation.CLUSTER_ACTION),
    Parts(("topics", "partitions"), ("results", "partitions")),
)
async def write_share_group_state(
    request: WriteShareGroupStateRequest, ctx: Context, states: ShareStates
) -> WriteShareGroupStateResponse:
    """Remember what leaders say of share partitions."""

    async def ask(key: SharePartitionKey, row: PartitionData) -> PartitionResult:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in row.state_batches
        ]
        change = StateChange(
            row.state_epoch,
            row.leader_epoch,
            row.start_offset,
            row.delivery_complete_count,
            batches,
            read_producer(row.dead_letters),
        )
        await states.ask(key, lambda machine, now_ms: machine.write(key, change, now_ms))
        return PartitionResult(partition=row.partition, error_code=0)

    found = await of_each(request.group_id, request.topics, ask, failed)
    return WriteShareGroupStateResponse(
        results=[WriteStateResult(topic_id=topic.topic_id, partitions=rows) for topic, rows in found]
    )


def failed(partition: int, error: KafkaError) -> PartitionResult:
    """A partition that was refused."""
    return PartitionResult(partition=partition, error_code=error.code, error_message=str(error))
