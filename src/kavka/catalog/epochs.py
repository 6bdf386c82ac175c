"""The segments of one leader epoch: which are read, which are kept aside, how far the epoch was ever copied.

Rule: those that are read start in order and none ends before one that starts earlier, so the last that starts at or
before an offset is one that reaches farthest. A segment inside a longer one (two leaders copied the same offsets) is
kept aside: not read, still listed, so that it is expired like any other, and read again when the longer one goes. Any
of them is right, because an epoch has one record at an offset. Kafka lets such a late comer take the place of the
longer one, whose other offsets then nobody finds (KAFKA-15168, KAFKA-16511).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kavka.model.types import Uuid


class EpochSegments:
    """The segments of one leader epoch."""

    __slots__ = ("_ends", "_ids", "_starts", "aside", "highest", "pending")

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._ids: list[Uuid] = []
        self.aside: dict[Uuid, tuple[int, int]] = {}  # finished, and inside another: first and last offset
        self.pending: dict[Uuid, None] = {}  # being copied, or being deleted
        self.highest: int | None = None  # of all that were ever finished: deletion does not lower it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochSegments) and (
            (self._starts, self._ends, self._ids, self.aside, self.pending, self.highest)
            == (other._starts, other._ends, other._ids, other.aside, other.pending, other.highest)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def referenced(self) -> list[Uuid]:
        """Those that are read, by offset."""
        return self._ids

    @property
    def unreferenced(self) -> list[Uuid]:
        """Those that are not."""
        return [*self.aside, *self.pending]

    def entries(self) -> Iterator[tuple[Uuid, int, int]]:
        """Those that are read, each with its first and last offset of this epoch."""
        return zip(self._ids, self._starts, self._ends, strict=True)

    def __iter__(self) -> Iterator[Uuid]:
        yield from self._ids
        yield from self.aside
        yield from self.pending

    def floor(self, offset: int) -> Uuid | None:
        """The segment that has this offset in this epoch."""
        slot = bisect_right(self._starts, offset) - 1
        return self._ids[slot] if slot >= 0 and offset <= self._ends[slot] else None

    def last_before(self, offset: int) -> tuple[Uuid, int] | None:
        """The last segment that has something of this epoch before an offset, and the last such offset."""
        slot = bisect_left(self._starts, offset) - 1
        return (self._ids[slot], min(self._ends[slot], offset - 1)) if slot >= 0 else None

    def copy_started(self, id: Uuid) -> None:
        """Know a segment that cannot be read yet."""
        self.pending[id] = None

    def copy_finished(self, id: Uuid, start: int, end: int) -> None:
        """Let a segment be read that has the offsets from `start` to `end` of this epoch."""
        if self.highest is None or end > self.highest:
            self.highest = end
        self.pending.pop(id, None)
        self.aside.pop(id, None)
        self._place(id, start, end)

    def refer(self, id: Uuid, start: int, end: int) -> None:
        """Make a segment one that is read; those inside it no longer are."""
        first = bisect_left(self._starts, start)
        last = bisect_right(self._ends, end)
        for slot in range(first, last):
            self.aside[self._ids[slot]] = (self._starts[slot], self._ends[slot])
        if first < last:
            del self._starts[first:last], self._ends[first:last], self._ids[first:last]
        self._starts.insert(first, start)
        self._ends.insert(first, end)
        self._ids.insert(first, id)
        self.aside.pop(id, None)

    def delete_started(self, id: Uuid, start: int) -> None:
        """Stop reading a segment, but remember it until it is gone."""
        self.forget(id, start)
        self.pending[id] = None

    def forget(self, id: Uuid, start: int) -> None:
        """Forget a segment; those that only it had kept aside are read again."""
        self.pending.pop(id, None)
        self.aside.pop(id, None)
        slot = bisect_left(self._starts, start)
        if slot == len(self._ids) or self._ids[slot] != id:
            return
        end = self._ends[slot]
        del self._starts[slot], self._ends[slot], self._ids[slot]
        for other, (first, last) in list(self.aside.items()):
            if start <= first and last <= end:
                del self.aside[other]
                self._place(other, first, last)

    def _place(self, id: Uuid, start: int, end: int) -> None:
        slot = bisect_right(self._starts, start) - 1
        if end < start or (slot >= 0 and end < self._ends[slot]):
            self.aside[id] = (start, end)
        else:
            self.refer(id, start, end)
