"""What the machine is asked, what it answers, and what it has others do."""

from __future__ import annotations

from typing import NamedTuple

from kavka.coordinator.txn.state import NO_EPOCH, NO_PRODUCER_ID
from kavka.model.types import TopicPartition


class ProducerIdAndEpoch(NamedTuple):
    """A producer, and which of its lives."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


NOBODY = ProducerIdAndEpoch()


class Init(NamedTuple):
    """InitProducerId with a transactional id."""

    transactional_id: str
    timeout_ms: int
    known: ProducerIdAndEpoch = NOBODY
    """Whom the producer takes itself for; it asks to go on after an error (KIP-360)."""
    two_phase_commit: bool = False
    keep_prepared: bool = False


class Initialized(NamedTuple):
    """What a producer may go on with, and the transaction that was kept for it, if one was."""

    producer: ProducerIdAndEpoch
    ongoing: ProducerIdAndEpoch = NOBODY


class MarkersDue(NamedTuple):
    """A transaction's end is decided: its markers have to be written to all its partitions."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    partitions: frozenset[TopicPartition]
    version: int
    """The transaction version (KIP-890) that the partitions check the epoch by."""
