"""ListTransactions: v0-2.

Behaviour:  the transactional ids that this node coordinates, by state, producer id, for how long they have been open
            (v1) and pattern (v2); names of states that there are not come back.
Errors:     14 while some are being loaded; 128 for a pattern that is none.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.coordinator.txn.state import LABELS, Transaction
from kavka.protocol.schemas.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kavka.runtime.transactions import Transactions, matcher
from kavka.security.acl import Operation, ResourceType


@handler(ListTransactionsRequest, needs=PER_ITEM)
async def list_transactions(
    request: ListTransactionsRequest, ctx: Context, transactions: Transactions
) -> ListTransactionsResponse:
    """List transactional ids."""
    found = await transactions.list(wanted(request, ctx.now_ms))
    return ListTransactionsResponse(
        error_code=0,
        unknown_state_filters=[name for name in request.state_filters if name not in LABELS],
        transaction_states=[
            TransactionState(
                transactional_id=id_, producer_id=transaction.producer_id, transaction_state=transaction.status.label
            )
            for id_, transaction in found
            if ctx.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, id_, asked=False)
        ],
    )


def wanted(request: ListTransactionsRequest, now_ms: int) -> Callable[[str, Transaction], bool]:
    """Whether a transaction is asked for."""
    states = {LABELS[name] for name in request.state_filters if name in LABELS}
    producers = set(request.producer_id_filters)
    longer_than_ms = request.duration_filter
    matches = matcher(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def is_wanted(transactional_id: str, found: Transaction) -> bool:
        return (
            (not producers or found.producer_id in producers)
            and (not request.state_filters or found.status in states)
            and (longer_than_ms < 0 or now_ms - found.started_ms > longer_than_ms)
            and (matches is None or matches(transactional_id))
        )

    return is_wanted
