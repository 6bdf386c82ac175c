"""WriteTxnMarkers: v1-2.

Behaviour:  coordinators of other nodes, and admins that end a hanging transaction, have markers written; answered when
            all are replicated. A marker in the offsets topic makes the offsets of its transaction count, or drops them.
Errors:     one per partition: 3 not here, 6 not the leader or not loaded, 7, 19, 47 a later epoch was seen, 52 a later
            coordinator was seen, 56.
"""

from __future__ import annotations

import asyncio

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.model.errors import KafkaError, UnknownServerError
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kavka.runtime.markers import MarkerWriter, TxnMarkerEntry
from kavka.security.acl import Operation, ResourceType


@handler(
    WriteTxnMarkersRequest,
    PER_ITEM,
    Parts(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),
)
async def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: Context, writer: MarkerWriter
) -> WriteTxnMarkersResponse:
    """End transactions in partitions."""
    if not ctx.allows(Operation.ALTER, ResourceType.CLUSTER, asked=False):
        ctx.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return WriteTxnMarkersResponse(markers=[await write(marker, writer) for marker in request.markers])


async def write(asked: WritableTxnMarker, writer: MarkerWriter) -> WritableTxnMarkerResult:
    """Write one marker to all its partitions."""
    marker = TxnMarkerEntry(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    partitions = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
    found = await asyncio.gather(*(code_of_write(tp, marker, writer) for tp in partitions))
    codes = dict(zip(partitions, found, strict=True))
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )


async def code_of_write(partition: TopicPartition, marker: TxnMarkerEntry, writer: MarkerWriter) -> int:
    """Write a marker to a partition; the error code."""
    try:
        await writer.write(partition, marker)
    except KafkaError as error:
        return error.code
    except Exception:
        return UnknownServerError.code
    return 0
