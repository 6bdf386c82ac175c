"""The transaction coordinator of one partition of `__transaction_state`.

Deciding methods read and return a `Transition`; `replay` is the only writer of what the log remembers. How a
transaction ends is decided by the record that prepares it; `Publish` then has its markers written, and `complete` is
called when they are. The states and checks are those of Kafka's TransactionCoordinator, which KIP-98, KIP-360, KIP-890
and KIP-939 describe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final

from kavka.coordinator.record import Record
from kavka.coordinator.txn.ending import Ending, check_end, ends_now
from kavka.coordinator.txn.requests import NOBODY, Init, Initialized, MarkersDue, ProducerIdAndEpoch
from kavka.coordinator.txn.settings import TransactionSettings
from kavka.coordinator.txn.state import (
    AT_REST,
    EPOCH_BUMPS_SINCE,
    LAST_EPOCH,
    MAX_EPOCH,
    NEVER,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NOT_STARTED,
    PREPARED,
    Transaction,
    TransactionsState,
    TransactionStatus,
    entry,
    without,
)
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import TRANSACTION_VERSION
from kavka.metadata.image import MetadataImage
from kavka.model.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
from kavka.model.settings.values import Values
from kavka.model.transition import Divisible, Effect, Publish, SetTimer, Transition
from kavka.model.types import TopicPartition

ABORT: Final = "abort"
"""The timer by which transactions that took too long are aborted."""
EXPIRE: Final = "expire"
"""The timer by which transactional ids that nobody uses are forgotten."""
AT_ONCE: Final = 500
"""How many transactions one step of either takes, so that it never takes long."""


class TransactionCoordinator:
    """The machine of one shard."""

    def __init__(self, values: Values, image: MetadataImage, *, new_producer_id: Callable[[], int]) -> None:
        self.state = TransactionsState()
        self.last_epochs = LastEpochs()
        self._settings = TransactionSettings(values)
        self._image = image
        self._new_producer_id = new_producer_id
        self._to_expire: list[str] = []

    # -- the shard's life -----------------------------------------------------------------------------

    def replay(self, record: Record, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take in a record of the log: while loading, and right after appending what was decided."""
        self.state.replay(record)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nobody writes to this log in transactions."""

    def on_loaded(self, now_ms: int) -> Transition[None]:
        """Begin to serve, and finish what the last coordinator has prepared."""
        effects: list[Effect] = [
            Publish(_due(id_, found)) for id_, found in self.state.transactions.items() if found.status in PREPARED
        ]
        effects.append(SetTimer(ABORT, now_ms + self._settings.abort_interval_ms))
        effects.append(SetTimer(EXPIRE, now_ms + self._settings.expire_interval_ms))
        return Transition(None, (), tuple(effects))

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> Transition[None]:
        """Go by a later image of the cluster's metadata."""
        self._image = image
        return Transition(None)

    def on_settings(self, values: Values) -> None:
        """Go by other settings of the node."""
        self._settings = TransactionSettings(values)

    def on_timer(self, key: str, now_ms: int) -> Transition[None]:
        """A timer has gone off."""
        return self._abort_late(now_ms) if key == ABORT else self._expire(now_ms)

    @property
    def version(self) -> int:
        """The cluster's transaction version (KIP-890)."""
        return self._image.features.levels.get(TRANSACTION_VERSION, 0)

    def _write(self, transactional_id: str, transaction: Transaction) -> Record:
        return entry(transactional_id, transaction, 1 if self.version >= 1 else 0)

    # -- InitProducerId -------------------------------------------------------------------------------

    def init_producer_id(self, request: Init, now_ms: int) -> Transition[Initialized | KafkaError]:
        """Give a producer its id with an epoch that fences all before it.

        An open transaction is aborted first: the reply is then an error that has the producer ask again.
        """
        self._check_init(request)
        id_, timeout_ms = request.transactional_id, NEVER if request.two_phase_commit else request.timeout_ms
        found = self.state.transactions.get(id_)
        if found is None:
            found = Transaction(self._new_producer_id(), NO_EPOCH, timeout_ms, now_ms)
        known = None if request.known == NOBODY else request.known
        if found.status in PREPARED:
            raise ConcurrentTransactions(f"the last transaction of {id_} is not ended yet")
        if known is not None and not _may_go_on(found, known):
            raise ProducerFenced(f"{id_} belongs to another producer than {known.producer_id}")
        if found.status is TransactionStatus.ONGOING:
            if request.keep_prepared:
                return self._keep(request, found, timeout_ms, now_ms)
            fenced = self._prepare(id_, found, Ending(False, self.version, fence=True), now_ms)
            why = ConcurrentTransactions(f"the open transaction of {id_} is being aborted")
            return Transition(why, fenced.records, fenced.effects)
        new = self._next_life(id_, found, known)
        new = replace(
            new,
            timeout_ms=timeout_ms,
            status=TransactionStatus.EMPTY,
            partitions=frozenset(),
            started_ms=NOT_STARTED,
            previous_producer_id=found.producer_id,
            updated_ms=now_ms,
        )
        reply = Initialized(ProducerIdAndEpoch(new.producer_id, new.producer_epoch))
        return Transition(reply, (self._write(id_, new),))

    def _check_init(self, request: Init) -> None:
        settings = self._settings
        if not request.transactional_id:
            raise InvalidRequest("the transactional id is empty")
        if request.two_phase_commit and not settings.two_phase_commit:
            raise TransactionalIdAuthorizationFailed("two-phase commit is not enabled here")
        if request.keep_prepared and not (settings.two_phase_commit and self.version >= EPOCH_BUMPS_SINCE):
            raise UnsupportedVersion("prepared transactions cannot be kept here")
        if not request.two_phase_commit and not 0 < request.timeout_ms <= settings.max_timeout_ms:
            raise InvalidTransactionTimeout(f"a transaction may take 1 to {settings.max_timeout_ms} ms")

    def _next_life(self, id_: str, found: Transaction, known: ProducerIdAndEpoch | None) -> Transaction:
        """The same producer at its next epoch, or a new one when there is none; the same again for a retry."""
        epoch = found.producer_epoch
        if known is not None and epoch != NO_EPOCH and known.producer_epoch != epoch:
            if known.producer_epoch == self.last_epochs.of(id_):
                return found
            raise ProducerFenced(f"{id_} is at epoch {epoch}, not {known.producer_epoch}")
        self.last_epochs.put(id_, NO_EPOCH if known is None else epoch)
        if found.is_exhausted:
            return replace(found, producer_id=self._new_producer_id(), producer_epoch=0)
        return replace(found, producer_epoch=epoch + 1)

    def _keep(
        self, request: Init, found: Transaction, timeout_ms: int, now_ms: int
    ) -> Transition[Initialized | KafkaError]:
        """Let a new producer decide how the open transaction ends (KIP-939)."""
        producer_id, epoch = found.owner
        if epoch >= LAST_EPOCH:
            producer_id, epoch = self._new_producer_id(), -1
        new = replace(
            found,
            next_producer_id=producer_id,
            next_producer_epoch=epoch + 1,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
        )
        ongoing = ProducerIdAndEpoch(found.producer_id, found.producer_epoch)
        reply = Initialized(ProducerIdAndEpoch(*new.owner), ongoing)
        return Transition(reply, (self._write(request.transactional_id, new),))

    # -- AddPartitionsToTxn, AddOffsetsToTxn --------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Transition[None]:
        """Make partitions part of the open transaction, which the first of them opens."""
        self._require_ended(transactional_id, self._named(transactional_id))
        found = self._of(transactional_id, producer)
        if found.status is TransactionStatus.ONGOING and found.partitions.issuperset(partitions):
            return Transition(None)
        new = replace(
            found,
            status=TransactionStatus.ONGOING,
            partitions=found.partitions.union(partitions),
            started_ms=found.started_ms if found.status is TransactionStatus.ONGOING else now_ms,
            previous_producer_id=found.producer_id,
            updated_ms=now_ms,
            client_version=client_version,
        )
        return Transition(None, (self._write(transactional_id, new),))

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Error codes: whether partitions are part of the producer's open transaction."""
        found = self._of(transactional_id, producer)
        return {
            partition: 0 if partition in found.partitions else TransactionAbortable.code for partition in partitions
        }

    def _of(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
        """The transaction that a producer may add to."""
        found = self._named(transactional_id)
        if found.is_kept and found.owner == producer:
            raise InvalidTxnState(f"{transactional_id} may only end its prepared transaction")
        if found.producer_id != producer.producer_id:
            raise InvalidProducerIdMapping(f"{transactional_id} belongs to producer {found.producer_id}")
        if found.producer_epoch != producer.producer_epoch or found.is_kept:
            raise ProducerFenced(f"{transactional_id} is at epoch {found.producer_epoch}")
        self._require_ended(transactional_id, found)
        return found

    def _require_ended(self, transactional_id: str, found: Transaction) -> None:
        if found.status in PREPARED:
            raise ConcurrentTransactions(f"the last transaction of {transactional_id} is not ended yet")

    def _named(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        found = self.state.transactions.get(transactional_id)
        if found is None:
            raise InvalidProducerIdMapping(f"there is no transactional id {transactional_id}")
        return found

    # -- EndTxn -----------------------------------------------------------------------------------------

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool, client_version: int, now_ms: int
    ) -> Transition[ProducerIdAndEpoch]:
        """Decide how a transaction ends; from version 2 on the reply is what the producer goes on as."""
        found = self._named(transactional_id)
        # Whom a transaction was kept for has an epoch that it did not begin with: only version 2 tells it the next.
        ending = Ending(commit, max(client_version, EPOCH_BUMPS_SINCE) if found.is_kept else client_version)
        check_end(transactional_id, found, producer, ending)
        if not ends_now(transactional_id, found, producer, ending):
            return Transition(
                ProducerIdAndEpoch(found.producer_id, found.producer_epoch) if ending.bumps_epoch else NOBODY
            )
        return self._prepare(transactional_id, found, ending, now_ms)

    def _prepare(self, id_: str, found: Transaction, ending: Ending, now_ms: int) -> Transition[ProducerIdAndEpoch]:
        epoch, next_id, next_epoch = found.producer_epoch, NO_PRODUCER_ID, NO_EPOCH
        if ending.bumps_epoch:
            if found.is_kept:
                next_id, next_epoch = found.next_producer_id, found.next_producer_epoch + 1
                if found.next_producer_epoch >= LAST_EPOCH:
                    next_id, next_epoch = self._new_producer_id(), 0
            elif found.is_exhausted:
                next_id = self._new_producer_id()
            self.last_epochs.put(id_, epoch)
        elif ending.fence:
            self.last_epochs.put(id_, NO_EPOCH)
        if ending.bumps_epoch or ending.fence:
            epoch = min(epoch + 1, MAX_EPOCH)
        new = replace(
            found,
            status=TransactionStatus.PREPARE_COMMIT if ending.commit else TransactionStatus.PREPARE_ABORT,
            producer_epoch=epoch,
            previous_producer_id=found.producer_id,
            next_producer_id=next_id,
            next_producer_epoch=next_epoch,
            # A transaction of version 2 may be aborted before any partition was added: then it begins now.
            started_ms=now_ms if found.status in AT_REST else found.started_ms,
            updated_ms=now_ms,
            client_version=ending.version if ending.bumps_epoch else 0,
        )
        then = new.completed(now_ms)
        reply = ProducerIdAndEpoch(then.producer_id, then.producer_epoch) if ending.bumps_epoch else NOBODY
        return Transition(reply, (self._write(id_, new),), (Publish(_due(id_, new)),))

    def complete(self, transactional_id: str, producer: ProducerIdAndEpoch, now_ms: int) -> Transition[None]:
        """All markers of a transaction are written; raises InvalidTxnState if it is not that which was prepared."""
        found = self.state.transactions.get(transactional_id)
        if found is None or found.status not in PREPARED or (found.producer_id, found.producer_epoch) != producer:
            raise InvalidTxnState(f"{transactional_id} has prepared no transaction of {producer}")
        return Transition(None, (self._write(transactional_id, found.completed(now_ms)),))

    # -- what ends by itself ------------------------------------------------------------------------------

    def _abort_late(self, now_ms: int) -> Transition[None]:
        """Abort open transactions that have taken longer than their producers may."""
        records: list[Record] = []
        effects: list[Effect] = []
        late = [id_ for id_ in self.state.ongoing if self.state.transactions[id_].is_late(now_ms)]
        for id_ in late[:AT_ONCE]:
            try:
                ended = self._prepare(
                    id_, self.state.transactions[id_], Ending(False, self.version, fence=True), now_ms
                )
            except KafkaError:
                continue  # no producer id is available: it is tried again
            records += ended.records
            effects += ended.effects
        next_ms = now_ms if len(late) > AT_ONCE else now_ms + self._settings.abort_interval_ms
        return Transition(None, Divisible(records), (*effects, SetTimer(ABORT, next_ms)))

    def _expire(self, now_ms: int) -> Transition[None]:
        """Forget transactional ids that nobody has used for long; a part of them at a time."""
        old_ms = now_ms - self._settings.expiration_ms
        if not self._to_expire:
            self._to_expire = list(self.state.transactions)
        records = []
        for _ in range(min(AT_ONCE, len(self._to_expire))):
            id_ = self._to_expire.pop()
            found = self.state.transactions.get(id_)
            if found is not None and found.status in AT_REST and found.updated_ms <= old_ms:
                records.append(without(id_))
                self.last_epochs.forget(id_)
        next_ms = now_ms if self._to_expire else now_ms + self._settings.expire_interval_ms
        return Transition(None, Divisible(records), (SetTimer(EXPIRE, next_ms),))

    # -- looking --------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction:
        """The last transaction of an id; raises TransactionalIdNotFound."""
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        found = self.state.transactions.get(transactional_id)
        if found is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id}")
        return found

    def list(self, wanted: Callable[[str, Transaction], bool], ids: Iterable[str]) -> list[tuple[str, Transaction]]:
        """Those of these transactional ids that are there and wanted."""
        known = self.state.transactions
        return [(id_, known[id_]) for id_ in ids if id_ in known and wanted(id_, known[id_])]


class LastEpochs:
    """The epoch before the present one, by which a retry is told from a fenced producer (KIP-360).

    Soft state, for the log has no room for it: a retry that meets a new coordinator is fenced, as it is by Kafka.
    """

    __slots__ = ("_epochs",)

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}

    def of(self, transactional_id: str) -> int:
        """The epoch before the present one, as far as it is known; -1 is no epoch at all."""
        return self._epochs.get(transactional_id, NO_EPOCH)

    def put(self, transactional_id: str, epoch: int) -> None:
        """Remember an epoch that was given up, or that none was."""
        if epoch == NO_EPOCH:
            self._epochs.pop(transactional_id, None)
        else:
            self._epochs[transactional_id] = epoch

    def forget(self, transactional_id: str) -> None:
        """An id is gone."""
        self._epochs.pop(transactional_id, None)


def _may_go_on(found: Transaction, known: ProducerIdAndEpoch) -> bool:
    """Whether a producer may be whom it takes itself for: new, the present one, or the last one at its end."""
    return (
        found.producer_epoch == NO_EPOCH
        or known.producer_id == found.producer_id
        or (known.producer_id == found.previous_producer_id and known.producer_epoch >= LAST_EPOCH)
    )


def _due(transactional_id: str, prepared: Transaction) -> MarkersDue:
    producer = ProducerIdAndEpoch(prepared.producer_id, prepared.producer_epoch)
    return MarkersDue(transactional_id, producer, prepared.commits, prepared.partitions, prepared.client_version)
