"""The log of events that remembers the catalogue, as a port: `__remote_log_metadata`, or a list in a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kavka.model.types import Uuid


class Opened(NamedTuple):
    """A log that is there."""

    id: Uuid
    """Another one if it was made anew: then nothing that was read before counts."""
    partitions: int


class OffsetRange(NamedTuple):
    """Where a partition of it starts, and ends."""

    start_offset: int
    end_offset: int


class Events(NamedTuple):
    """Some values of one partition with their offsets, and where it goes on."""

    partition: int
    values: Sequence[tuple[int, bytes | None]]
    next_offset: int
    leader_epoch: int = -1
    """Under which the last of them was written, if that is known."""
    truncated: bool = False
    """Whether the partition has lost what was read of it before: it is read no more until it is followed anew."""


class EventLog(Protocol):
    """Partitions that values are written to and read from, each in one order for everybody."""

    async def open(self) -> Opened:
        """Make it unless it is there; raises KafkaError if that is not possible now."""

    def opened(self) -> Opened | None:
        """What it is now, as far as this node knows."""

    async def publish(self, partition: int, value: bytes) -> int:
        """Write a value where it survives; its offset. Raises KafkaError, and then nobody knows whether it was."""

    async def bounds(self, partition: int) -> OffsetRange:
        """What of a partition can be read now; raises KafkaError."""

    def follow(self, partition: int, offset: int, leader_epoch: int) -> None:
        """Begin to read a partition; what comes before was written under this leader epoch, if it is not -1."""

    def unfollow(self, partition: int) -> None:
        """Stop reading a partition."""

    async def take(self) -> Events:
        """What came next of the partitions that are followed; waits as long as it takes, whatever fails."""

    async def run(self) -> None:
        """Hold what it needs, until cancelled."""
