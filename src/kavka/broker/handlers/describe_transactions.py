"""DescribeTransactions: v0.

Behaviour:  the state of transactional ids that this node coordinates, with the partitions of their transactions.
Errors:     one per id: 14, 15, 16, 42 for an empty one, 105 for one that nobody uses.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.coordinator.txn.state import by_topic
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kavka.runtime.transactions import Transactions
from kavka.security.acl import Operation, ResourceType


@handler(DescribeTransactionsRequest, PER_ITEM, Parts(("transactional_ids",), ("transaction_states",)))
async def describe_transactions(
    request: DescribeTransactionsRequest, ctx: Context, transactions: Transactions
) -> DescribeTransactionsResponse:
    """Show transactions."""
    rows = [await describe(ctx, id_, transactions) for id_ in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=rows)


async def describe(ctx: Context, transactional_id: str, transactions: Transactions) -> TransactionState:
    """The row of one id."""
    try:
        ctx.require(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        found = await transactions.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    return TransactionState(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=found.status.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic.topic, partitions=topic.partition_ids)
            for topic in by_topic(found.partitions)
            if ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, asked=False)
        ],
    )
