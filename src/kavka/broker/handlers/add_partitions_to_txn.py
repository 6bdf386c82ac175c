"""AddPartitionsToTxn: v0-5.

Behaviour:  up to v3 a client adds partitions to its transaction; from v4 on brokers ask for several transactions, and
            may only want to know whether the partitions are part of them. All partitions of a transaction are added, or
            none.
Errors:     one per partition: 3 unknown, 29 a client's internal topic, 55 for those beside such a one; for all of them
            14, 15, 16, 42, 48, 49, 51, 90 (before v2: 47), 120 for a partition that is not part.
"""

from __future__ import annotations

from collections.abc import Mapping

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.coordinator.txn.requests import ProducerIdAndEpoch
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import is_internal
from kavka.metadata.view import MetadataView
from kavka.model.errors import (
    InvalidProducerEpoch,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from kavka.model.types import TopicPartition
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kavka.runtime.transactions import Transactions
from kavka.security.acl import Operation, ResourceType

BROKERS_SINCE = 4
KNOWS_FENCED_SINCE = 2


@handler(AddPartitionsToTxnRequest, needs=PER_ITEM)
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ctx: Context, transactions: Transactions, view: MetadataView
) -> AddPartitionsToTxnResponse:
    """Make partitions part of transactions, or look whether they are."""
    turn = Turn()
    if ctx.api_version < BROKERS_SINCE:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        ctx.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id)
        rows = await answer(asked, ctx, transactions, view.image, turn)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)
    ctx.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    results = []
    for transaction in request.transactions:
        rows = await answer(transaction, ctx, transactions, view.image, turn)
        results.append(AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=rows))
        await turn.breathe()
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def answer(
    asked: AddPartitionsToTxnTransaction, ctx: Context, transactions: Transactions, image: MetadataImage, turn: Turn
) -> list[AddPartitionsToTxnTopicResult]:
    """The rows of one transaction."""
    version = ctx.api_version
    partitions: list[TopicPartition] = []
    refused: dict[TopicPartition, int] = {}
    for topic in asked.topics:
        for index in topic.partitions:
            partitions.append(tp := TopicPartition(topic.name, index))
            if code := missing(tp, ctx, image):
                refused[tp] = code
            await turn.breathe()
    if refused:
        codes = dict.fromkeys(partitions, OperationNotAttempted.code)
        codes.update(refused)
        return await rows_of(codes, turn)
    producer = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    try:
        if asked.verify_only:
            return await rows_of(
                await transactions.verify_partitions(asked.transactional_id, producer, partitions), turn
            )
        client_version = 2 if version >= BROKERS_SINCE else 0
        await transactions.add_partitions(asked.transactional_id, producer, partitions, client_version)
        code = 0
    except KafkaError as error:
        old = isinstance(error, ProducerFenced) and version < KNOWS_FENCED_SINCE
        code = InvalidProducerEpoch.code if old else error.code
    return await rows_of(dict.fromkeys(partitions, code), turn)


def missing(partition: TopicPartition, ctx: Context, image: MetadataImage) -> int:
    """The error code of a partition that cannot be added; clients do not write to internal topics."""
    if ctx.api_version < BROKERS_SINCE and (
        is_internal(partition.topic) or not ctx.allows(Operation.WRITE, ResourceType.TOPIC, partition.topic)
    ):
        return TopicAuthorizationFailed.code
    topic = image.topics.by_name.get(partition.topic)
    return 0 if topic is not None and partition.partition in topic.partitions else UnknownTopicOrPartition.code


async def rows_of(codes: Mapping[TopicPartition, int], turn: Turn) -> list[AddPartitionsToTxnTopicResult]:
    """Error codes as a response lists them."""
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in codes.items():
        row = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topics.setdefault(topic, []).append(row)
        await turn.breathe()
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=rows) for name, rows in topics.items()]
