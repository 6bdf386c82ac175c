"""A metadata log in memory, with a disk that forgets what was not forced."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

from kavka.raft.messages import OffsetAndEpoch
from kavka.raft.voters import ControlChange


class Entry(NamedTuple):
    """A record: its epoch, what it says, and what it changes of voters and versions."""

    epoch: int
    value: Any
    change: ControlChange | None = None


class Snapshot(NamedTuple):
    """All that is before an offset."""

    id: OffsetAndEpoch
    entries: list[Entry]
    changes: list[ControlChange]


class MemoryLog:
    """The log: entries from `start_offset` on, snapshots, and how much of it would survive a power failure."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.entries: list[Entry] = []
        self.epochs: list[tuple[int, int]] = []  # (epoch, its first offset)
        self.snapshots: list[Snapshot] = []
        self.synced = 0

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.snapshots[0].id.epoch if self.snapshots and self.start_offset else 0

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[-1].id if self.snapshots else None

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[0].id if self.snapshots else None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        if not self.epochs or epoch >= self.epochs[-1][0]:
            exact = self.epochs and self.epochs[-1][0] == epoch
            return OffsetAndEpoch(self.end_offset, epoch if exact else self.last_epoch)
        index = bisect_right(self.epochs, (epoch, 1 << 62))
        start_of_next = self.epochs[index][1]
        return OffsetAndEpoch(start_of_next, self.epochs[index - 1][0] if index else epoch)

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            if not self.epochs or self.epochs[-1][0] != entry.epoch:
                self.epochs.append((entry.epoch, self.end_offset))
            self.entries.append(entry)

    def read(self, offset: int, count: int) -> list[Entry]:
        return self.entries[offset - self.start_offset : offset - self.start_offset + count]

    def truncate(self, offset: int) -> None:
        del self.entries[max(offset - self.start_offset, 0) :]
        self.synced = min(self.synced, offset)
        while self.epochs and self.epochs[-1][1] >= offset:
            self.epochs.pop()

    def cut(self, snapshot: Snapshot, *, drop_log: bool) -> None:
        """Keep a snapshot; let go of the log before it."""
        self.snapshots.append(snapshot)
        if drop_log:
            self.snapshots = [snapshot]
            del self.entries[: snapshot.id.offset - self.start_offset]
            self.start_offset = snapshot.id.offset
            later = [(epoch, start) for epoch, start in self.epochs if start >= snapshot.id.offset]
            if self.entries and (not later or later[0][1] > self.start_offset):
                later.insert(0, (self.entries[0].epoch, self.start_offset))
            self.epochs = later

    def install(self, snapshot: Snapshot) -> None:
        """Begin anew at a snapshot."""
        self.entries = []
        self.epochs = []
        self.snapshots = [snapshot]
        self.start_offset = self.synced = snapshot.id.offset

    def changes(self) -> list[ControlChange]:
        """What snapshot and log say of voters and versions."""
        found = list(self.snapshots[0].changes) if self.snapshots and self.start_offset else []
        return found + [entry.change for entry in self.entries if entry.change is not None]
