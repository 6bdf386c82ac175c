"""A leader's wish to change the in-sync replicas, and what the controller made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kavka.model.types import Uuid

RECOVERED = 0
ANY_EPOCH = -1
"""The broker epoch of a replica that has not fetched from this leader: the controller does not check it."""


class BrokerEpoch(NamedTuple):
    """A broker in one of its lives."""

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
        """The ids of the wanted in-sync replicas."""
        return tuple(one.id for one in self.isr)


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
