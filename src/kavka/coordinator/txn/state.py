"""What one partition of `__transaction_state` remembers; `replay` is the only writer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from kavka.coordinator.record import Record
from kavka.coordinator.txn.records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kavka.model.types import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 2**15 - 1
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The last epoch that a client gets, so that there is always one left to fence it with."""
NEVER: Final = 2**31 - 1
"""The timeout of a transaction that only its producer ends (two-phase commit, KIP-939)."""
NOT_STARTED: Final = -1
EPOCH_BUMPS_SINCE: Final = 2
"""From this transaction version on every end of a transaction brings a new epoch (KIP-890)."""


class TransactionStatus(IntEnum):
    """How far a transaction is; Dead and PrepareEpochFence have names, but nothing is ever written with them."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As Kafka's tools write it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


LABELS: Final = {status.label: status for status in TransactionStatus}
PREPARED: Final = frozenset((TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT))
AT_REST: Final = frozenset(
    (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
)
"""Nothing is open: a transaction may begin, and an id may expire."""
MAY_FOLLOW: Final = {
    TransactionStatus.EMPTY: AT_REST,
    TransactionStatus.ONGOING: AT_REST | {TransactionStatus.ONGOING},
    TransactionStatus.PREPARE_COMMIT: frozenset((TransactionStatus.ONGOING,)),
    TransactionStatus.PREPARE_ABORT: AT_REST | {TransactionStatus.ONGOING},
    TransactionStatus.COMPLETE_COMMIT: frozenset((TransactionStatus.PREPARE_COMMIT,)),
    TransactionStatus.COMPLETE_ABORT: frozenset((TransactionStatus.PREPARE_ABORT,)),
}
"""The states that each state may come after."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The last transaction of a transactional id, and whose it is."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NOT_STARTED
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """Whose it will be once the markers are written; of a transaction that was kept (KIP-939), whose it is now."""
    next_producer_epoch: int = NO_EPOCH
    client_version: int = 0
    """The transaction version (KIP-890) of the request that changed it last."""

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer can get no later epoch."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        """Whether its end brings a new epoch."""
        return self.client_version >= EPOCH_BUMPS_SINCE

    @property
    def is_kept(self) -> bool:
        """Whether it is open, and a new producer has taken it over to decide how it ends (KIP-939)."""
        return self.status is TransactionStatus.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    def is_late(self, now_ms: int) -> bool:
        """Whether it has been open for longer than its producer may take."""
        return self.timeout_ms != NEVER and self.started_ms + self.timeout_ms < now_ms

    @property
    def commits(self) -> bool:
        """Whether it was or is being committed."""
        return self.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)

    @property
    def owner(self) -> tuple[int, int]:
        """The producer id and epoch that the client has."""
        return (
            (self.next_producer_id, self.next_producer_epoch)
            if self.is_kept
            else (
                self.producer_id,
                self.producer_epoch,
            )
        )

    def completed(self, now_ms: int) -> Transaction:
        """What it is once all its markers are written."""
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            status=TransactionStatus.COMPLETE_COMMIT
            if self.status is TransactionStatus.PREPARE_COMMIT
            else TransactionStatus.COMPLETE_ABORT,
            partitions=frozenset(),
            previous_producer_id=self.producer_id,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=max(self.next_producer_epoch, 0) if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            updated_ms=now_ms,
        )


@dataclass(slots=True)
class TransactionsState:
    """The transactional ids of a shard."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    ongoing: set[str] = field(default_factory=set)
    """Those that have an open transaction: the only ones that can time out."""

    def replay(self, record: Record) -> None:
        """Take in a record; a log that was compacted has only the last of each id, so nothing insists on an order."""
        id_ = record.key.transactional_id
        self.ongoing.discard(id_)
        if record.value is None:
            self.transactions.pop(id_, None)
            return
        found = self.transactions[id_] = read_transaction(record.value)
        if found.status is TransactionStatus.ONGOING:
            self.ongoing.add(id_)


def read_transaction(value: TransactionLogValue) -> Transaction:
    """A transaction as its record has it."""
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        status=TransactionStatus(value.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        client_version=value.client_transaction_version,
    )


def entry(transactional_id: str, transaction: Transaction, version: int) -> Record:
    """A transaction's record; version 0 has no room for other producer ids and client versions (KIP-890)."""
    flexible = version >= 1
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.status,
        transaction_partitions=None
        if transaction.status is TransactionStatus.EMPTY
        else by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        previous_producer_id=transaction.previous_producer_id if flexible else NO_PRODUCER_ID,
        next_producer_id=transaction.next_producer_id if flexible else NO_PRODUCER_ID,
        next_producer_epoch=transaction.next_producer_epoch if flexible else NO_EPOCH,
        client_transaction_version=transaction.client_version if flexible else 0,
    )
    return Record(TransactionLogKey(transactional_id=transactional_id), value, version)


def without(transactional_id: str) -> Record:
    """A transactional id is forgotten."""
    return Record(TransactionLogKey(transactional_id=transactional_id))


def by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    """Partitions as a record lists them."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in found.items()]
