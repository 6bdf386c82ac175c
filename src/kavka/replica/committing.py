"""Requests that wait until what they wrote, or deleted, has reached the other replicas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from kavka.model.errors import (
    KafkaError,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from kavka.replica.partition import Partition
from kavka.replica.waiting import Waiter, Waiting

K = TypeVar("K", bound=Hashable)
Errors = Mapping[K, KafkaError]
Reached = Callable[[Partition], int]
"""How far a partition is on all replicas."""


def committed(partition: Partition) -> int:
    """What all in-sync replicas have."""
    return partition.high_watermark


def deleted(partition: Partition) -> int:
    """What no live replica has any more."""
    return partition.low_watermark


class Awaited(NamedTuple):
    """An offset that a partition has to reach under the leadership in which it was asked for."""

    partition: Partition
    offset: int
    led_since: int


class ReplicasWait(Generic[K]):
    """One small object per request that waits, for any number of partitions."""

    __slots__ = ("_done", "_failed", "_left", "_reached", "_waiter")

    def __init__(self, awaited: Mapping[K, Awaited], reached: Reached, done: Callable[[Errors[K]], None]) -> None:
        self._left: dict[K, Awaited] = dict(awaited)
        self._reached: Final = reached
        self._done = done
        self._failed: dict[K, KafkaError] = {}
        self._waiter: Waiter | None = None

    def park(self, wait_ms: int, waiting: Waiting) -> None:
        """Call back when all are there, or when the time is up, with the errors of those that are not."""
        self._waiter = waiting.park(max(wait_ms, 0), self._look)
        if not self._look_and_watch():
            return
        self._waiter.cancel()
        self._done(self._failed)

    def news(self) -> None:
        """A partition has changed."""
        if self._waiter is not None:
            self._waiter.wake()

    def _look(self, last: bool) -> bool:
        if not self._look_and_watch():
            if not last:
                return False
            for key, one in self._left.items():
                one.partition.watchers.discard(self)
                self._failed[key] = RequestTimedOut(f"{one.partition.topic_partition}: not on all replicas in time")
        self._done(self._failed)
        return True

    def _look_and_watch(self) -> bool:
        left: dict[K, Awaited] = {}
        for key, one in self._left.items():
            partition = one.partition
            if not partition.leads or partition.led_since != one.led_since:
                self._failed[key] = NotLeaderOrFollower(f"{partition.topic_partition} is led by another node now")
            elif self._reached(partition) < one.offset:
                left[key] = one
                partition.watchers.add(self)
            elif self._reached is committed and not partition.enough_in_sync:
                self._failed[key] = NotEnoughReplicasAfterAppend(
                    f"{partition.topic_partition} lost in-sync replicas before the record was on enough of them"
                )
        self._left = left
        return not left
