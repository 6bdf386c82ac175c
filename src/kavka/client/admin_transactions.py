"""The admin client's part for transactions: list, describe, abort, and find hanging ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kavka.client.admin_cluster import ActiveProducer, ClusterAdmin
from kavka.client.group_link import TRANSACTION, GroupLink
from kavka.client.pool import Pool
from kavka.client.transactions import Transactor
from kavka.client.view import raise_for
from kavka.model.errors import TransactionalIdNotFound
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kavka.protocol.schemas.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kavka.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NO_TRANSACTION: Final = -1


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionDescription(NamedTuple):
    """The last transaction of a transactional id."""

    id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    """When it began; -1 if none has."""
    partitions: tuple[TopicPartition, ...]


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int


class TransactionsAdmin:
    """The part of the admin client that deals with transactions."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of the cluster, by name; raises for a pattern that is none."""
        view = await self._pool.refresh()
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        )

        async def ask(node: int) -> list[TransactionListing]:
            answer = await self._pool.request(request, ListTransactionsResponse, node=node)
            raise_for(answer.error_code)
            if answer.unknown_state_filters:
                raise ValueError(f"there is no state {answer.unknown_state_filters[0]!r} of transactions")
            return [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, node)
                for row in answer.transaction_states
            ]

        found = await asyncio.gather(*(ask(node) for node in view.nodes))
        return sorted(row for rows in found for row in rows)

    async def describe_transaction(self, id_: str) -> TransactionDescription:
        """The last transaction of an id; raises TransactionalIdNotFound."""
        link = GroupLink(self._pool, id_, key_type=TRANSACTION)
        answer = await link.ask(
            DescribeTransactionsRequest(transactional_ids=[id_]),
            DescribeTransactionsResponse,
            code=lambda response: response.transaction_states[0].error_code,
        )
        row = answer.transaction_states[0]
        raise_for(row.error_code)
        return TransactionDescription(
            id=row.transactional_id,
            coordinator=await link.node(),
            state=row.transaction_state,
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            timeout_ms=row.transaction_timeout_ms,
            start_ms=row.transaction_start_time_ms,
            partitions=tuple(
                TopicPartition(topic.topic, partition) for topic in row.topics for partition in topic.partitions
            ),
        )

    async def fence_producer(self, id_: str, *, timeout_ms: int = 60_000) -> None:
        """Fence the users of a transactional id; an open transaction is aborted. Raises TransactionalIdNotFound."""
        await self.describe_transaction(id_)
        transactor = Transactor(
            self._pool, id_, timeout_ms=timeout_ms, max_block_ms=self._pool.timeout_ms, two_phase_commit=False
        )
        await transactor.init()

    async def abort_transaction(self, open_: OpenTransaction) -> None:
        """Abort a transaction in one partition without its coordinator: only for hanging ones."""
        tp = open_.partition
        marker = WritableTxnMarker(
            producer_id=open_.producer_id,
            producer_epoch=open_.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
            coordinator_epoch=max(open_.coordinator_epoch, 0),
        )
        await self._pool.topic(tp.topic)
        answer = await self._pool.request(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, node=self._pool.view.leader(*tp)
        )
        raise_for(answer.markers[0].topics[0].partitions[0].error_code)

    async def open_transactions(self, *partitions: TopicPartition) -> list[OpenTransaction]:
        """The transactions that are open in partitions."""
        found = await ClusterAdmin(self._pool).describe_producers(*partitions)
        return [
            _open(tp, producer)
            for tp, producers in sorted(found.items())
            for producer in producers
            if producer.transaction_start_offset != NO_TRANSACTION
        ]

    async def find_hanging(self, partitions: Sequence[TopicPartition], *, older_than_ms: int) -> list[OpenTransaction]:
        """The hanging transactions of partitions: their coordinator does not know them, so nothing will end them.

        Only those whose last record is older than a time in milliseconds since 1970 are considered.
        """
        candidates = [
            transaction
            for transaction in await self.open_transactions(*partitions)
            if transaction.last_timestamp < older_than_ms
        ]
        if not candidates:
            return []
        listed = await self.list_transactions(producer_ids={transaction.producer_id for transaction in candidates})
        known: dict[int, TransactionDescription] = {}
        for row in listed:
            try:
                known[row.producer_id] = await self.describe_transaction(row.id)
            except TransactionalIdNotFound:
                continue
        return [
            transaction for transaction in candidates if not _is_known(transaction, known.get(transaction.producer_id))
        ]


def _open(partition: TopicPartition, producer: ActiveProducer) -> OpenTransaction:
    return OpenTransaction(
        partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.transaction_start_offset,
        producer.last_timestamp,
    )


def _is_known(transaction: OpenTransaction, described: TransactionDescription | None) -> bool:
    """Whether a coordinator has a transaction that the one in a partition is part of, and will end it."""
    return (
        described is not None
        and transaction.partition in described.partitions
        and described.producer_epoch >= transaction.producer_epoch
        and described.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    )
