"""A leader's proposal to change the ISR, and what the controller made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kavka.model.types import Uuid

RECOVERED = 0
ANY_EPOCH = -1
"""The broker epoch of a replica that has not fetched from this leader: the controller does not check it."""


class BrokerEpoch(NamedTuple):
    """A broker id and its broker epoch."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class IsrChange:
    """What a leader asks for: one partition of an AlterPartition request."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerEpoch, ...]
    leader_recovery_state: int = RECOVERED

    @property
    def key(self) -> tuple[Uuid, int]:
        """Which partition it is about."""
        return self.topic_id, self.partition

    @property
    def replicas(self) -> tuple[int, ...]:
        """The ids of the proposed ISR."""
        return tuple(replica.id for replica in self.isr)


@dataclass(frozen=True, slots=True)
class IsrOutcome:
    """What the controller answered: an error, or the partition as it is now."""

    topic_id: Uuid
    partition: int
    error_code: int
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED

    @property
    def key(self) -> tuple[Uuid, int]:
        """Which partition it is about."""
        return self.topic_id, self.partition
