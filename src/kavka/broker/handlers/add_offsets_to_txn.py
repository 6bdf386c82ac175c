"""AddOffsetsToTxn: v0-4.

Behaviour:  makes the partition that holds a group's offsets part of a transaction, before TxnOffsetCommit up to v4.
Errors:     14, 15, 16, 42, 48, 49, 51, 90 (before v2: 47).
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_transactional_id
from kavka.coordinator.txn.requests import ProducerIdAndEpoch
from kavka.metadata.names import CONSUMER_OFFSETS
from kavka.model.errors import InvalidProducerEpoch, ProducerFenced
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kavka.runtime.groups import Groups
from kavka.runtime.transactions import Transactions
from kavka.security.acl import Operation, ResourceType

KNOWS_FENCED_SINCE = 2


@handler(AddOffsetsToTxnRequest, needs=on_transactional_id(Operation.WRITE))
async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, ctx: Context, transactions: Transactions, groups: Groups
) -> AddOffsetsToTxnResponse:
    """Make a group's offsets part of a transaction."""
    ctx.require(Operation.READ, ResourceType.GROUP, request.group_id)
    partition = TopicPartition(CONSUMER_OFFSETS, groups.offsets_partition(request.group_id))
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        await transactions.add_partitions(request.transactional_id, producer, [partition], 0)
    except ProducerFenced as error:
        code = error.code if ctx.api_version >= KNOWS_FENCED_SINCE else InvalidProducerEpoch.code
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse(error_code=0)
