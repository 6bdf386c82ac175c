"""Waiting until what was written, or deleted, has reached the other replicas: one way for all who do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kavka.model.errors import (
    KafkaError,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from kavka.model.types import TopicPartition
from kavka.replica.waiting import Waiter, Waiting

if TYPE_CHECKING:  # a partition makes these waits
    from kavka.replica.fetching import Watcher
    from kavka.replica.partition import Partition

K = TypeVar("K", bound=Hashable)
Errors = Mapping[K, KafkaError]
Done = Callable[[KafkaError | None], None]
"""Is told that what it waited for is there, or why it will not be."""


class Led(Protocol):
    """A partition whose progress is waited for."""

    watchers: set[Watcher]
    led_since: int
    high_watermark: int

    @property
    def low_watermark(self) -> int:
        """The first offset that some live replica still has."""

    @property
    def leads(self) -> bool:
        """Whether this node is its leader."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Which one it is."""


high_watermark: Callable[[Led], int] = attrgetter("high_watermark")
low_watermark: Callable[[Led], int] = attrgetter("low_watermark")


class OffsetWait:
    """One offset that a partition has to reach under the leadership in which it was asked for."""

    __slots__ = ("_done", "_led_since", "_offset", "_partition", "_reached")

    def __init__(
        self, partition: Led, reached: Callable[[Led], int], offset: int, led_since: int | None, done: Done
    ) -> None:
        """Call back once, perhaps before this returns."""
        self._partition = partition
        self._reached = reached
        self._offset = offset
        self._led_since = partition.led_since if led_since is None else led_since
        self._done: Done | None = done
        self.news()

    def news(self) -> None:
        """The partition has changed."""
        done, partition = self._done, self._partition
        if done is None:
            return
        if not partition.leads or partition.led_since != self._led_since:
            self._done = None
            done(NotLeaderOrFollower(f"{partition.topic_partition} is led by another node now"))
        elif self._reached(partition) >= self._offset:
            self._done = None
            done(None)
        else:
            partition.watchers.add(self)

    def cancel(self) -> None:
        """Do not call back any more."""
        self._done = None
        self._partition.watchers.discard(self)


class Awaited(NamedTuple):
    """An offset that a partition has to reach under the leadership in which it was asked for."""

    partition: Partition
    offset: int
    led_since: int


When = Callable[[Awaited, Done], OffsetWait]


def committed(one: Awaited, done: Done) -> OffsetWait:
    """Wait for all in-sync replicas to have a producer's records; they must be as many as the topic demands."""
    return one.partition.when_committed(one.offset, done, one.led_since)


def deleted(one: Awaited, done: Done) -> OffsetWait:
    """Wait for all live replicas to have deleted what is before an offset."""
    return one.partition.when_deleted(one.offset, done, one.led_since)


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

    def park(self, wait_ms: int, waiting: Waiting) -> None:
        """Call back when all are there, or when the time is up, with the errors of those that are not."""
        for key, one in list(self._left.items()):
            self._waits[key] = self._when(one, partial(self._told, key))
        if not self._left:
            self._done(self._failed)
            return
        self._waiter = waiting.park(max(wait_ms, 0), self._look)

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
        for key, one in self._left.items():
            self._waits[key].cancel()
            self._failed[key] = RequestTimedOut(f"{one.partition.topic_partition}: not on all replicas in time")
        self._done(self._failed)
        return True
