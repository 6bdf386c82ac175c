"""Requests that wait until what they wrote, or deleted, has reached the other replicas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kavka.model.errors import (
    KafkaError,
    NotEnoughReplicasAfterAppend,
    RequestTimedOut,
)
from kavka.replica.offset_wait import Done, OffsetWait
from kavka.replica.partition import Partition
from kavka.replica.waiting import Purgatory, Waiter

K = TypeVar("K", bound=Hashable)
Errors = Mapping[K, KafkaError]


class Awaited(NamedTuple):
    """An offset that a partition has to reach under the leader epoch in which it was asked for."""

    partition: Partition
    offset: int
    led_since: int


When = Callable[[Awaited, Done], OffsetWait]


def committed(awaited: Awaited, done: Done) -> OffsetWait:
    """Wait for all in-sync replicas to have a producer's records; they must be at least min.insync.replicas."""
    return awaited.partition.when_committed(awaited.offset, done, awaited.led_since)


def deleted(awaited: Awaited, done: Done) -> OffsetWait:
    """Wait for all live replicas to have deleted what is before an offset."""
    return awaited.partition.when_deleted(awaited.offset, done, awaited.led_since)


class ReplicasWait(Generic[K]):
    """One small object per request that waits, for any number of partitions."""

    __slots__ = ("_done", "_failed", "_left", "_waiter", "_waits", "_when")

    def __init__(self, awaited: Mapping[K, Awaited], when: When, done: Callable[[Errors[K]], None]) -> None:
        self._left: dict[K, Awaited] = dict(awaited)
        self._when = when
        self._done = done
        self._failed: dict[K, KafkaError] = {}
        self._waits: dict[K, OffsetWait] = {}
        self._waiter: Waiter | None = None

    def park(self, wait_ms: int, purgatory: Purgatory) -> None:
        """Call back when all are there, or when the time is up, with the errors of those that are not."""
        for key, awaited in list(self._left.items()):
            self._waits[key] = self._when(awaited, partial(self._told, key))
        if not self._left:
            self._done(self._failed)
            return
        self._waiter = purgatory.park(max(wait_ms, 0), self._look)

    def _told(self, key: K, error: KafkaError | None) -> None:
        partition = self._left.pop(key).partition
        if error is None and self._when is committed and not partition.enough_in_sync:
            error = NotEnoughReplicasAfterAppend(
                f"{partition.topic_partition} lost in-sync replicas before the record was on enough of them"
            )
        if error is not None:
            self._failed[key] = error
        if not self._left and self._waiter is not None:
            self._waiter.wake()  # answered with all others of this turn

    def _look(self, last: bool) -> bool:
        if self._left and not last:
            return False
        for key, awaited in self._left.items():
            self._waits[key].cancel()
            self._failed[key] = RequestTimedOut(
                f"{awaited.partition.topic_partition}: not replicated to the in-sync replicas in time"
            )
        self._done(self._failed)
        return True
