"""What a node has on its disk, and what of it a crash leaves: a log keeps what was forced, and perhaps some more."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kavka.raft.effects import ElectionState
from kavka.raft.messages import OffsetAndEpoch
from kavka.raft.voters import ControlChange
from kavka.testing.sim.world import World


class Entry(NamedTuple):
    """A record of a log: its epoch, what it says, and where the batch that it came in begins."""

    epoch: int
    value: Any
    batch: int


class SimLog:
    """Records from a start offset on. A crash may cut off, at the start of a batch, whatever was not forced."""

    __slots__ = ("entries", "epochs", "start_epoch", "start_offset", "synced")

    def __init__(self) -> None:
        self.start_offset = 0
        self.start_epoch = 0
        self.entries: list[Entry] = []
        self.epochs: list[tuple[int, int]] = []
        """Each epoch with the offset where it starts."""
        self.synced = 0

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of what the log starts after."""
        return self.entries[-1].epoch if self.entries else self.start_epoch

    @property
    def latest(self) -> int:
        """The newest epoch known, with records or without; -1 if there is none."""
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, values: list[Any], epoch: int) -> int:
        """Write a batch; the offset of its last record."""
        start = self.end_offset
        self.assign(epoch, start)
        self.entries.extend(Entry(epoch, value, start) for value in values)
        return self.end_offset - 1

    def take(self, entries: list[Entry]) -> None:
        """Write entries of another log, which continue this one."""
        for entry in entries:
            self.assign(entry.epoch, self.end_offset)
            self.entries.append(entry)

    def assign(self, epoch: int, offset: int) -> None:
        """Note where an epoch starts."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, offset))

    def slice(self, start: int, end: int) -> list[Entry]:
        """The entries between two offsets."""
        return self.entries[start - self.start_offset : end - self.start_offset]

    def truncate(self, offset: int) -> None:
        """Cut off everything from an offset on."""
        del self.entries[max(offset - self.start_offset, 0) :]
        end = self.end_offset
        while self.epochs and self.epochs[-1][1] >= end and (self.epochs[-1][0] > self.start_epoch or not end):
            self.epochs.pop()
        self.synced = min(self.synced, self.end_offset)

    def restart(self, offset: int, epoch: int) -> None:
        """Begin anew at an offset."""
        self.entries.clear()
        self.start_offset = self.synced = offset
        self.start_epoch = epoch
        self.epochs = [(epoch, offset)]

    def drop_before(self, offset: int, epoch: int) -> None:
        """Let go of what is before an offset, whose last record is of an epoch."""
        if self.start_offset < offset <= self.end_offset:
            del self.entries[: offset - self.start_offset]
            self.start_offset, self.start_epoch = offset, epoch
            self.synced = max(self.synced, offset)  # the snapshot that stands for what went was forced
            known = bisect_right(self.epochs, offset, key=lambda one: one[1])
            if known > 1:
                del self.epochs[: known - 1]

    def end_offset_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below this one, and where the next one began; (-1, -1) for one after all known."""
        if epoch > self.latest:
            return -1, -1
        at = bisect_right(self.epochs, epoch, key=lambda one: one[0]) - 1
        if at < 0:
            return epoch, self.epochs[0][1]
        end = self.epochs[at + 1][1] if at + 1 < len(self.epochs) else end_offset
        return self.epochs[at][0], end

    def lose_power(self, world: World) -> None:
        """Keep what was forced and a part of the rest, whole batches only: a torn one is found out and cut off."""
        kept = world.between(self.synced, self.end_offset)
        if kept < self.end_offset:
            self.truncate(max(self.entries[kept - self.start_offset].batch, self.synced))


class Snapshot(NamedTuple):
    """The metadata up to an offset, and the voters there."""

    id: OffsetAndEpoch
    records: list[Any]
    changes: tuple[ControlChange, ...]


@dataclass(slots=True)
class PartitionFiles:
    """A partition on the disk of one of its replicas."""

    log: SimLog = field(default_factory=SimLog)
    high_watermark: int = 0
    """As of the last checkpoint."""


class MetadataLog(SimLog):
    """The metadata log and its snapshots, as the raft core looks at it."""

    __slots__ = ("snapshots",)

    def __init__(self) -> None:
        super().__init__()
        self.snapshots: list[Snapshot] = []

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""
        return self.snapshots[-1].id if self.snapshots else None

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The oldest snapshot."""
        return self.snapshots[0].id if self.snapshots else None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch at or below this one, and where it ends."""
        if not self.epochs:
            return OffsetAndEpoch(self.end_offset, epoch)
        known, end = self.end_offset_for(min(epoch, self.latest), self.end_offset)
        return OffsetAndEpoch(end, known)


@dataclass(slots=True)
class Disk:
    """Everything of a node that outlives its process."""

    metadata: MetadataLog = field(default_factory=MetadataLog)
    election: ElectionState | None = None
    partitions: dict[tuple[bytes, int], PartitionFiles] = field(default_factory=dict)
    clean_epoch: int = -1
    """The broker epoch in the clean-shutdown marker; -1 if there is none."""
