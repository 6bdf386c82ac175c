"""The log of events that a catalogue of remote segments is kept in, in this process: several nodes may share one."""

from __future__ import annotations

import asyncio
from collections import deque

from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.runtime.remote_catalog.event_log import Events, OffsetRange, Opened

TOPIC_ID = Uuid(b"remote metadata.")
NEW_TOPIC_ID = Uuid(b"metadata anew...")


class SharedEvents:
    """What all nodes see."""

    def __init__(self, partitions: int = 3) -> None:
        self.id: Uuid | None = TOPIC_ID
        """None while it is deleted."""
        self.partitions: list[list[bytes | None]] = [[] for _ in range(partitions)]
        self.starts = [0] * partitions
        self.epochs = [0] * partitions
        """The leader epoch of each partition, of all that is in it."""
        self.logs: list[MemoryEventLog] = []

    def append(self, partition: int, value: bytes | None) -> int:
        """Write a value, as any node may; its offset."""
        self.partitions[partition].append(value)
        for log in self.logs:
            log.wake()
        return len(self.partitions[partition]) - 1


class MemoryEventLog:
    """The log as one node has it, with faults as a test wants them."""

    def __init__(self, shared: SharedEvents, batch: int = 2) -> None:
        self.shared = shared
        shared.logs.append(self)
        self.fails: deque[KafkaError] = deque()
        """What the next calls that may fail raise."""
        self.held_back = False
        """Whether nothing arrives."""
        self.reads: list[tuple[int, int]] = []
        self._batch = batch
        self._positions: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._news = asyncio.Event()

    def wake(self) -> None:
        """There may be something to read."""
        self._news.set()

    def opened(self) -> Opened | None:
        """What it is now."""
        return Opened(self.shared.id, len(self.shared.partitions)) if self.shared.id is not None else None

    async def open(self) -> Opened:
        """What it is, made anew if it is deleted."""
        self._fail()
        if self.shared.id is None:
            self.shared.id = NEW_TOPIC_ID
        return Opened(self.shared.id, len(self.shared.partitions))

    async def publish(self, partition: int, value: bytes) -> int:
        """Write a value."""
        self._fail()
        return self.shared.append(partition, value)

    async def bounds(self, partition: int) -> OffsetRange:
        """Where a partition starts and ends."""
        self._fail()
        return OffsetRange(self.shared.starts[partition], len(self.shared.partitions[partition]))

    def follow(self, partition: int, offset: int, leader_epoch: int) -> None:
        """Read a partition from an offset on."""
        self._positions[partition] = offset
        self._epochs[partition] = leader_epoch
        self.reads.append((partition, offset))
        self.wake()

    def unfollow(self, partition: int) -> None:
        """Read a partition no more."""
        self._positions.pop(partition, None)

    async def take(self) -> Events:
        """The next values, a few at a time."""
        while True:
            for partition, position in () if self.held_back else list(self._positions.items()):
                epoch = self.shared.epochs[partition]
                if position > len(self.shared.partitions[partition]) or self._epochs[partition] not in (-1, epoch):
                    del self._positions[partition]
                    return Events(partition, (), 0, truncated=True)
                values = self.shared.partitions[partition][position : position + self._batch]
                if values:
                    self._positions[partition] = after = position + len(values)
                    self._epochs[partition] = epoch
                    return Events(partition, list(enumerate(values, position)), after, epoch)
            self._news.clear()
            await self._news.wait()

    async def run(self) -> None:
        """Nothing is held."""
        await asyncio.get_running_loop().create_future()

    def _fail(self) -> None:
        if self.fails:
            raise self.fails.popleft()
