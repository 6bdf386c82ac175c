"""Which offsets each leader epoch wrote: the log's leader-epoch-checkpoint, in memory.

Nothing is written to the file on assignment. Entries above the recovery point are found again in the batches after a
crash, and the file is replaced, durably, before the recovery point passes them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

UNDEFINED = -1


class LeaderEpochs:
    """The (epoch, start offset) pairs of a log, both increasing."""

    __slots__ = ("_entries", "dirty", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: tuple[tuple[int, int], ...] = ()
        self.latest = UNDEFINED  # the newest epoch; a plain attribute because every append compares with it
        for epoch, start in entries:
            self.assign(epoch, start)
        self.dirty = False

    def __repr__(self) -> str:
        return f"LeaderEpochs({list(self._entries)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeaderEpochs) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """All pairs, oldest first."""
        return self._entries

    @property
    def earliest(self) -> tuple[int, int] | None:
        """The oldest pair."""
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that an epoch starts at an offset; entries that contradict it go. Says whether anything changed."""
        entries = self._entries
        if entries:
            last_epoch, last_start = entries[-1]
            if epoch == last_epoch and start_offset >= last_start:
                return False
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot start at offset {start_offset}")
        keep = len(entries)
        while keep and (entries[keep - 1][0] >= epoch or entries[keep - 1][1] >= start_offset):
            keep -= 1
        self._set((*entries[:keep], (epoch, start_offset)))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below this one that wrote something here, and where the next one began.

        (-1, -1) if the epoch is unknown and newer than all.
        """
        entries = self._entries
        if epoch == UNDEFINED:
            return UNDEFINED, UNDEFINED
        if entries and entries[-1][0] == epoch:
            return epoch, log_end_offset
        higher = bisect_right(entries, epoch, key=_epoch)
        if higher == len(entries):
            return UNDEFINED, UNDEFINED
        if higher == 0:
            return epoch, entries[0][1]
        return entries[higher - 1][0], entries[higher][1]

    def epoch_for(self, offset: int) -> int | None:
        """The epoch that wrote an offset."""
        after = bisect_right(self._entries, offset, key=_start)
        return self._entries[after - 1][0] if after else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or after an offset."""
        entries = self._entries
        keep = len(entries)
        while keep and entries[keep - 1][1] >= end_offset:
            keep -= 1
        if keep < len(entries):
            self._set(entries[:keep])

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end before an offset; the one that holds it now starts there."""
        entries = self._entries
        gone = bisect_right(entries, start_offset, key=_start)
        if gone > 1 or (gone and entries[0][1] != start_offset):
            self._set(((entries[gone - 1][0], start_offset), *entries[gone:]))

    def restore(self, entries: tuple[tuple[int, int], ...]) -> None:
        """Know again what was lost."""
        if entries != self._entries:
            self._set(entries)

    def clear(self) -> None:
        """Forget everything."""
        if self._entries:
            self._set(())

    def _set(self, entries: tuple[tuple[int, int], ...]) -> None:
        self._entries = entries
        self.latest = entries[-1][0] if entries else UNDEFINED
        self.dirty = True


def _epoch(entry: tuple[int, int]) -> int:
    return entry[0]


def _start(entry: tuple[int, int]) -> int:
    return entry[1]
