"""Who may end a transaction, and what the end of one that is over already means.

At transaction version 2 (KIP-890) every end brings a new epoch. So an EndTxn of the last epoch is a retry, and one of
the present epoch is about the next transaction; before, the two cannot be told apart (KAFKA-17754).
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.coordinator.txn.requests import ProducerIdAndEpoch
from kavka.coordinator.txn.state import EPOCH_BUMPS_SINCE, LAST_EPOCH, PREPARED, Transaction, TransactionStatus
from kavka.model.errors import ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced


class Ending(NamedTuple):
    """How a transaction shall end."""

    commit: bool
    version: int
    """The transaction version of who asks."""
    fence: bool = False
    """Whether the coordinator aborts it, and its producer must not go on."""

    @property
    def bumps_epoch(self) -> bool:
        """Whether it brings a new epoch."""
        return self.version >= EPOCH_BUMPS_SINCE


def check_end(id_: str, found: Transaction, producer: ProducerIdAndEpoch, ending: Ending) -> None:
    """Raise unless the producer is the one that may end, or has ended, the transaction."""
    busy = ConcurrentTransactions(f"the last transaction of {id_} is not ended yet")
    if ending.bumps_epoch and found.status in PREPARED:
        raise busy  # before anything else: the producer may go by what it will be once this is over
    owner_id, epoch = found.owner
    retries = ending.bumps_epoch and is_retry(found, producer)
    if owner_id != producer.producer_id and not retries:
        raise InvalidProducerIdMapping(f"{id_} belongs to producer {owner_id}")
    if epoch != producer.producer_epoch and (
        not retries or found.status in (TransactionStatus.ONGOING, TransactionStatus.EMPTY)
    ):
        raise ProducerFenced(f"{id_} is at epoch {epoch}, not {producer.producer_epoch}")
    if found.status in PREPARED:
        raise busy


def is_retry(found: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Whether a producer asks again for an end that was decided, at version 2."""
    id_, epoch = producer
    if found.producer_id == id_ and found.producer_epoch == epoch + 1:
        return True
    return found.previous_producer_id == id_ and epoch == LAST_EPOCH and found.producer_epoch == 0


def ends_now(id_: str, found: Transaction, producer: ProducerIdAndEpoch, ending: Ending) -> bool:
    """Whether there is something to end; raises where the request contradicts what was decided.

    Not so for the retry of an end that is complete. At version 2 nothing at all can be aborted, because the producer
    does not know whether a partition was added (KIP-890).
    """
    if found.status is TransactionStatus.ONGOING:
        return True
    agrees = found.status is not TransactionStatus.EMPTY and found.commits == ending.commit
    if ending.bumps_epoch:
        retries = found.status is not TransactionStatus.EMPTY and is_retry(found, producer)
        if not ending.commit and not retries:
            return True
        agrees = agrees and retries
    if not agrees:
        verb = "committed" if ending.commit else "aborted"
        raise InvalidTxnState(f"the transaction of {id_} is in {found.status.label} and cannot be {verb}")
    return False
