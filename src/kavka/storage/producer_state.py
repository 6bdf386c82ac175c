"""What each producer last wrote to a log: sequence numbers, epochs, open transactions.

A batch is checked against this state before it is written and changes it after. The checks are those of Kafka's
ProducerAppendInfo: clients must continue their sequence, coordinators must not be of an older epoch, and what was
replicated is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from kavka.kernels.batches import BatchInfo
from kavka.model.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from kavka.model.types import TopicPartition

MAX_SEQUENCE = 2**31 - 1
MAX_EPOCH = 2**15 - 1
NO_OFFSET = -1
KEPT_BATCHES = 5
KIND_BITS = 0x30  # transactional and control

TRANSACTIONAL = 0x10
_new_tuple = tuple.__new__


class AppendOrigin(Enum):
    """Who appends: it decides how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft leader"
    REPLICATION = "replication"


class BatchMeta(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class EndTransactionMarker(NamedTuple):
    """The end of a transaction, as its control record says."""

    commit: bool
    coordinator_epoch: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction with data in this log whose marker is being appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """The state of one producer id; `next_sequence` and `kind` are what its next batch should carry."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "kind",
        "last_timestamp",
        "next_sequence",
        "producer_epoch",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = -1,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        txn_first_offset: int = NO_OFFSET,
        batches: Iterable[BatchMeta] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.kind = TRANSACTIONAL if txn_first_offset >= 0 else 0
        self.batches = list(batches)
        self.next_sequence = _after(self.last_sequence)

    def fields(self) -> tuple[int, int, int, int, int, tuple[BatchMeta, ...]]:
        """Everything, in the order the constructor takes it."""
        return (
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.txn_first_offset,
            tuple(self.batches),
        )

    def copy(self) -> ProducerEntry:
        """The same state, to change without changing this."""
        return ProducerEntry(*self.fields())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerEntry) and self.fields() == other.fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ProducerEntry{self.fields()}"

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 if no batch is remembered."""
        return self.batches[-1][1] if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The offset of the last data record; -1 if no batch is remembered."""
        return self.batches[-1][3] if self.batches else NO_OFFSET

    def add(
        self, epoch: int, first_sequence: int, last_sequence: int, first_offset: int, last_offset: int, timestamp: int
    ) -> None:
        """Remember one more batch, as the last."""
        batches = self.batches
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            batches.clear()
        batches.append(_new_tuple(BatchMeta, (first_sequence, last_sequence, first_offset, last_offset, timestamp)))
        if len(batches) > KEPT_BATCHES:
            del batches[0]
        self.next_sequence = last_sequence + 1 if last_sequence < MAX_SEQUENCE else 0
        self.last_timestamp = timestamp

    def begin(self, first_offset: int) -> None:
        """A transaction starts."""
        self.txn_first_offset = first_offset
        self.kind = TRANSACTIONAL

    def end(self, epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """A transaction's marker is written: it may bring a new epoch (KIP-890)."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()
            self.next_sequence = 0
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        self.txn_first_offset = NO_OFFSET
        self.kind = 0

    def duplicate_of(self, batch: BatchInfo) -> BatchMeta | None:
        """The remembered batch with the same epoch and sequence numbers."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in self.batches:
            if known[0] == first and known[1] == last:
                return known
        return None


class VerificationStateEntry:
    """A producer that begins a transaction here, while its coordinator is asked whether the log is part of it.

    The object itself is the guard: a marker written meanwhile removes it, so that a late answer lets nothing in. Until
    the first batch is written, a batch behind the lowest sequence that was seen must wait for that one.
    """

    __slots__ = ("bumps_epoch", "epoch", "lowest_sequence", "since_ms")

    def __init__(self, sequence: int, epoch: int, bumps_epoch: bool, since_ms: int) -> None:
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.bumps_epoch = bumps_epoch
        self.since_ms = since_ms

    def saw(self, sequence: int, epoch: int) -> None:
        """One more batch asks for the same."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(sequence, self.lowest_sequence)


class PreparedAppend:
    """What an append will change once it is written: copies, so that a failed write changes nothing."""

    __slots__ = ("completed", "entries", "started")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.started: dict[int, int] = {}  # first offset -> producer id
        self.completed: list[CompletedTransaction] = []


class ProducerStates:
    """The producers of one log, its open transactions, and the offsets at which it has snapshots."""

    __slots__ = ("entries", "ongoing", "snapshots", "topic_partition", "unreplicated", "verifications")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.entries: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}  # first offset -> producer id, in order of first offset
        self.unreplicated: dict[int, int] = {}  # first offset -> marker's offset, until the high watermark passes it
        self.snapshots: list[int] = []
        self.verifications: dict[int, VerificationStateEntry] = {}  # by producer id; no log remembers them

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self.entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The state of a producer id."""
        return self.entries.get(producer_id)

    def prepare(
        self,
        batch: BatchInfo,
        base_offset: int,
        origin: AppendOrigin,
        prepared: PreparedAppend,
        read_marker: Callable[[], EndTransactionMarker | None],
        transaction_version: int = 0,
    ) -> None:
        """Check a batch that has a producer id, and note in `prepared` what it will change."""
        producer_id = batch.producer_id
        entry = prepared.entries.get(producer_id)
        if entry is None:
            known = self.entries.get(producer_id)
            entry = known.copy() if known is not None else ProducerEntry(producer_id)
            prepared.entries[producer_id] = entry
        if batch.is_control:
            marker = read_marker()
            if marker is not None:
                self._end(entry, batch, base_offset, marker, origin, prepared, transaction_version)
            elif producer_id not in self.entries and entry.producer_epoch < 0:
                del prepared.entries[producer_id]  # an emptied marker says nothing any more
            return
        self._check_epoch(entry, batch.producer_epoch, base_offset, origin, -1)
        if origin is AppendOrigin.CLIENT:
            self._check_sequence(entry, batch, base_offset)
        if entry.txn_first_offset >= 0 and not batch.is_transactional:
            raise InvalidTxnState(
                f"producer {producer_id} has a transaction open in {self.topic_partition} but sent a batch outside it"
            )
        entry.add(
            batch.producer_epoch,
            batch.base_sequence,
            batch.last_sequence,
            base_offset,
            base_offset + batch.last_offset_delta,
            batch.max_timestamp,
        )
        if batch.is_transactional and entry.txn_first_offset < 0:
            entry.begin(base_offset)
            prepared.started[base_offset] = producer_id

    def commit(self, prepared: PreparedAppend) -> list[tuple[CompletedTransaction, int]]:
        """Take over what `prepare` noted; each completed transaction comes with the last stable offset after it."""
        self.entries.update(prepared.entries)
        self.ongoing.update(prepared.started)
        if self.verifications:
            self._end_verifications(prepared)
        ended = []
        for completed in prepared.completed:
            ended.append((completed, self._next_unstable(completed)))
            self.ongoing.pop(completed.first_offset, None)
            self.unreplicated[completed.first_offset] = completed.last_offset
        return ended

    # -- verification (KIP-890) -------------------------------------------------------------------

    def has_ongoing(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open here, at an epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.producer_epoch == epoch

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool, now_ms: int
    ) -> VerificationStateEntry | None:
        """The guard of a transaction that begins; None if it has begun already."""
        self._require_present_epoch(producer_id, epoch)
        if self.has_ongoing(producer_id, epoch):
            return None
        found = self.verifications.get(producer_id)
        if found is None:
            found = self.verifications[producer_id] = VerificationStateEntry(sequence, epoch, bumps_epoch, now_ms)
        found.saw(sequence, epoch)
        return found

    def require_verified(self, producer_id: int, epoch: int, guard: VerificationStateEntry | None) -> None:
        """Raise unless a transaction is open here, or its beginning was verified and nothing came between."""
        self._require_present_epoch(producer_id, epoch)
        if not self.has_ongoing(producer_id, epoch) and (
            guard is None or self.verifications.get(producer_id) is not guard
        ):
            raise InvalidTxnState(f"producer {producer_id} has no transaction open in {self.topic_partition}")

    def _require_present_epoch(self, producer_id: int, epoch: int) -> None:
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} is at epoch {entry.producer_epoch} in {self.topic_partition}, not {epoch}"
            )

    def _end_verifications(self, prepared: PreparedAppend) -> None:
        for producer_id, entry in prepared.entries.items():
            found = self.verifications.get(producer_id)
            # A marker that is behind: the next transaction, which has a later epoch since version 2, has begun.
            behind = found is not None and found.bumps_epoch and entry.txn_first_offset < 0
            if found is not None and not (behind and found.epoch >= entry.producer_epoch):
                del self.verifications[producer_id]

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Start from a snapshot's entries."""
        self.clear()
        self.entries = {entry.producer_id: entry for entry in entries}
        open_transactions = sorted(
            (entry.txn_first_offset, entry.producer_id) for entry in self if entry.txn_first_offset >= 0
        )
        self.ongoing = dict(open_transactions)

    def take_over(self, other: ProducerStates) -> None:
        """Know what the producers of a log with the same records are known to have done; the snapshots stay."""
        self.entries = other.entries
        self.ongoing = other.ongoing
        self.unreplicated = other.unreplicated
        self.verifications = other.verifications

    def clear(self) -> None:
        """Forget all producers; the list of snapshots stays."""
        self.entries = {}
        self.ongoing = {}
        self.unreplicated = {}
        self.verifications = {}

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for long and have no open transaction; says how many."""
        gone = [entry.producer_id for entry in self if is_expired(entry, now_ms, expiration_ms)]
        for producer_id in gone:
            del self.entries[producer_id]
        late = [
            producer_id for producer_id, found in self.verifications.items() if now_ms - found.since_ms >= expiration_ms
        ]
        for producer_id in late:
            del self.verifications[producer_id]
        return len(gone)

    def replicated(self, high_watermark: int) -> None:
        """Transactions whose markers are below the high watermark are decided for everyone."""
        if self.unreplicated:
            self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= high_watermark}

    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose marker is not known to be replicated."""
        first = next(iter(self.ongoing), None)
        if self.unreplicated:
            unreplicated = min(self.unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    def _next_unstable(self, completed: CompletedTransaction) -> int:
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def _end(
        self,
        entry: ProducerEntry,
        batch: BatchInfo,
        offset: int,
        marker: EndTransactionMarker,
        origin: AppendOrigin,
        prepared: PreparedAppend,
        transaction_version: int,
    ) -> None:
        version = 0 if origin is AppendOrigin.REPLICATION else transaction_version
        self._check_epoch(entry, batch.producer_epoch, offset, origin, version)
        if marker.coordinator_epoch < entry.coordinator_epoch and origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"marker of coordinator epoch {marker.coordinator_epoch} for producer {entry.producer_id} in "
                f"{self.topic_partition}: epoch {entry.coordinator_epoch} has been seen"
            )
        if entry.txn_first_offset >= 0:
            prepared.completed.append(
                CompletedTransaction(entry.producer_id, entry.txn_first_offset, offset, not marker.commit)
            )
        entry.end(batch.producer_epoch, marker.coordinator_epoch, marker.timestamp)

    def _check_epoch(
        self, entry: ProducerEntry, epoch: int, offset: int, origin: AppendOrigin, transaction_version: int
    ) -> None:
        current = entry.producer_epoch
        if epoch > current or (epoch == current and transaction_version < 2):
            return
        if transaction_version >= 2 and epoch == current and (entry.txn_first_offset < 0 or epoch == MAX_EPOCH):
            return  # the retry of a marker that was written (KAFKA-19999)
        if origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpoch(
                f"producer {entry.producer_id} wrote with epoch {epoch} at offset {offset} of {self.topic_partition}, "
                f"but epoch {current} has been seen"
            )

    def _check_sequence(self, entry: ProducerEntry, batch: BatchInfo, offset: int) -> None:
        sequence = batch.base_sequence
        if self.verifications:
            self._check_first(entry, sequence, offset)
        if entry.producer_epoch < 0:
            return  # nothing is known, perhaps because retention removed it: any sequence may go on
        expected = entry.next_sequence if batch.producer_epoch == entry.producer_epoch else 0
        if sequence != expected:
            raise OutOfOrderSequenceNumber(
                f"producer {entry.producer_id} (epoch {batch.producer_epoch}) wrote sequence {sequence} at offset "
                f"{offset} of {self.topic_partition}; expected {expected}"
            )

    def _check_first(self, entry: ProducerEntry, sequence: int, offset: int) -> None:
        """Raise where a batch would begin a transaction, but cannot be the first of it."""
        found = self.verifications.get(entry.producer_id)
        if found is None:
            return
        starts_at = 0 if found.bumps_epoch and not entry.batches else found.lowest_sequence
        if sequence > starts_at:
            raise OutOfOrderSequenceNumber(
                f"producer {entry.producer_id} wrote sequence {sequence} at offset {offset} of {self.topic_partition}; "
                f"its transaction begins with {starts_at}"
            )


def is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    """Whether a producer wrote nothing for long and has no open transaction."""
    return entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms


def _after(sequence: int) -> int:
    return sequence + 1 if sequence < MAX_SEQUENCE else 0
