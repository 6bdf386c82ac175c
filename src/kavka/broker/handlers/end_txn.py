"""EndTxn: v0-5.

Behaviour:  answers once the prepared commit or abort is in the transaction log; the markers are written afterwards.
            From v5 on (transaction version 2, KIP-890) the producer goes on with the epoch in the answer.
Errors:     14, 15, 16; 42 without a transactional id; 48 where there is nothing to end, or it has ended otherwise;
            49 for another producer's id; 51 while the last transaction is being ended; 90 (before v2: 47) when fenced.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_transactional_id
from kavka.coordinator.txn.requests import ProducerIdAndEpoch
from kavka.model.errors import InvalidProducerEpoch, ProducerFenced
from kavka.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from kavka.runtime.transactions import Transactions
from kavka.security.acl import Operation

BUMPS_EPOCH_SINCE = 5
KNOWS_FENCED_SINCE = 2


@handler(EndTxnRequest, needs=on_transactional_id(Operation.WRITE))
async def end_txn(request: EndTxnRequest, ctx: Context, transactions: Transactions) -> EndTxnResponse:
    """Commit or abort a transaction."""
    try:
        found = await transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            commit=request.committed,
            client_version=2 if ctx.api_version >= BUMPS_EPOCH_SINCE else 0,
        )
    except ProducerFenced as error:
        code = error.code if ctx.api_version >= KNOWS_FENCED_SINCE else InvalidProducerEpoch.code
        return EndTxnResponse(error_code=code)
    return EndTxnResponse(error_code=0, producer_id=found.producer_id, producer_epoch=found.producer_epoch)
