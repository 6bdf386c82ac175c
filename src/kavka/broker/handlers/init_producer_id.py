"""InitProducerId: v0-5.

Behaviour:  an idempotent producer gets an id that nobody had before, at epoch 0. With a transactional id it gets that
            id's producer at an epoch that fences those before it; an open transaction is aborted first. v6 (KIP-939),
            which is not stable, is for two-phase commit, and offered only where that is enabled.
Errors:     an empty transactional id, or a producer id without its epoch, is INVALID_REQUEST; 14, 15, 16 while the
            coordinator loads or is on another node; 35 for a prepared transaction that cannot be kept; 50 for a
            timeout over the limit; 51 while a transaction is being ended; 53 for two-phase commit where it is off; 90
            (before v4: 47) for a producer that was fenced.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.coordinator.txn.requests import Init, Initialized, ProducerIdAndEpoch
from kavka.model.errors import InvalidProducerEpoch, InvalidRequest, KafkaError, ProducerFenced
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.quorum.producer_ids import ProducerIds
from kavka.runtime.transactions import Transactions
from kavka.security.acl import Operation, ResourceType

KNOWS_FENCED_SINCE = 4


@handler(InitProducerIdRequest, needs=PER_ITEM)
async def init_producer_id(
    request: InitProducerIdRequest, ctx: Context, producer_ids: ProducerIds, transactions: Transactions
) -> InitProducerIdResponse:
    """Give a producer an id."""
    require_right(request, ctx)
    if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
        return refused(InvalidRequest.code)
    if request.transactional_id is None:
        id_ = await producer_ids.next()
        return InitProducerIdResponse(error_code=0, producer_id=id_, producer_epoch=0)
    try:
        found = await transactions.init_producer_id(
            Init(
                request.transactional_id,
                request.transaction_timeout_ms,
                ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
                two_phase_commit=request.enable2_pc,
                keep_prepared=request.keep_prepared_txn,
            )
        )
    except KafkaError as error:
        old = isinstance(error, ProducerFenced) and ctx.api_version < KNOWS_FENCED_SINCE
        return refused(InvalidProducerEpoch.code if old else error.code)
    return accepted(found, ctx.api_version)


def require_right(request: InitProducerIdRequest, ctx: Context) -> None:
    """Who may write to any topic may have an id that is only its own."""
    if request.transactional_id is not None:
        ctx.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if request.enable2_pc:
            ctx.require(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    elif not ctx.allows(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, asked=False) and not ctx.allows_any(
        Operation.WRITE, ResourceType.TOPIC
    ):
        ctx.require(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def accepted(found: Initialized, version: int) -> InitProducerIdResponse:
    """An answer with an id, and from v6 on with the transaction that was kept."""
    id_, epoch = found.producer
    if version < 6:
        return InitProducerIdResponse(error_code=0, producer_id=id_, producer_epoch=epoch)
    return InitProducerIdResponse(
        error_code=0,
        producer_id=id_,
        producer_epoch=epoch,
        ongoing_txn_producer_id=found.ongoing.producer_id,
        ongoing_txn_producer_epoch=found.ongoing.producer_epoch,
    )


def refused(code: int) -> InitProducerIdResponse:
    """An answer without an id."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
