"""Waiting for an offset to be committed, or deleted: one way for producers, coordinators, markers and DeleteRecords."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Protocol

from kavka.model.errors import KafkaError, NotLeaderOrFollower
from kavka.model.types import TopicPartition
from kavka.replica.fetching import Watcher

Done = Callable[[KafkaError | None], None]
"""Is told that what it waited for is there, or why it will not be."""


class Led(Protocol):
    """A partition whose progress is waited for."""

    watchers: dict[Watcher, None]
    led_since: int
    high_watermark: int

    @property
    def low_watermark(self) -> int:
        """The low watermark: the smallest log start offset of the live replicas."""

    @property
    def leads(self) -> bool:
        """Whether this node is its leader."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Which one it is."""


high_watermark: Callable[[Led], int] = attrgetter("high_watermark")
low_watermark: Callable[[Led], int] = attrgetter("low_watermark")


class OffsetWait:
    """One offset that a partition has to reach under the leader epoch in which it was asked for."""

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
            done(NotLeaderOrFollower(f"the leader of {partition.topic_partition} is another node now"))
        elif self._reached(partition) >= self._offset:
            self._done = None
            done(None)
        else:
            partition.watchers[self] = None

    def cancel(self) -> None:
        """Do not call back any more."""
        self._done = None
        self._partition.watchers.pop(self, None)
