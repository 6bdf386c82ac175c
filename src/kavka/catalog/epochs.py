"""The segments of one leader epoch: which can be read, which wait to be cleaned up, how far the epoch was ever copied.

Rule: those that can be read start and end in the same order, none inside another, so the last that starts at or before
an offset is the one that reaches farthest. A segment inside another (two leaders copied the same offsets) is kept
aside: not read, still listed, so that it is expired like any other. Kafka lets such a late comer take the place of the
longer one, which then nobody finds (KAFKA-15168, KAFKA-16511).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kavka.model.types import Uuid


class EpochSegments:
    """The segments of one leader epoch."""

    __slots__ = ("_ends", "_ids", "_starts", "highest", "unreferenced")

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._ids: list[Uuid] = []
        self.unreferenced: set[Uuid] = set()
        self.highest: int | None = None  # of all that were ever finished: deletion does not lower it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochSegments) and (
            (self._starts, self._ends, self._ids, self.unreferenced, self.highest)
            == (other._starts, other._ends, other._ids, other.unreferenced, other.highest)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def referenced(self) -> list[Uuid]:
        """Those that can be read, by offset."""
        return self._ids

    def entries(self) -> Iterator[tuple[Uuid, int, int]]:
        """Those that can be read, each with its first and last offset of this epoch."""
        return zip(self._ids, self._starts, self._ends, strict=True)

    def __iter__(self) -> Iterator[Uuid]:
        yield from self._ids
        yield from self.unreferenced

    def floor(self, offset: int) -> Uuid | None:
        """The segment that has this offset in this epoch."""
        slot = bisect_right(self._starts, offset) - 1
        return self._ids[slot] if slot >= 0 and offset <= self._ends[slot] else None

    def copy_started(self, id: Uuid) -> None:
        """Know a segment that cannot be read yet."""
        self.unreferenced.add(id)

    def copy_finished(self, id: Uuid, start: int, end: int) -> None:
        """Let a segment be read that has the offsets from `start` to `end` of this epoch."""
        if self.highest is None or end > self.highest:
            self.highest = end
        slot = bisect_right(self._starts, start) - 1
        inside = slot >= 0 and end <= self._ends[slot] and (start, end) != (self._starts[slot], self._ends[slot])
        if end < start or inside:
            self.unreferenced.add(id)
            return
        self.refer(id, start, end)

    def refer(self, id: Uuid, start: int, end: int) -> None:
        """Make a segment one that is read; those inside it no longer are."""
        first = bisect_left(self._starts, start)
        last = bisect_right(self._ends, end)
        if first < last:
            self.unreferenced.update(self._ids[first:last])
            del self._starts[first:last], self._ends[first:last], self._ids[first:last]
        self._starts.insert(first, start)
        self._ends.insert(first, end)
        self._ids.insert(first, id)
        self.unreferenced.discard(id)

    def delete_started(self, id: Uuid, start: int) -> None:
        """Stop reading a segment, but remember it until it is gone."""
        self._drop(id, start)
        self.unreferenced.add(id)

    def forget(self, id: Uuid, start: int) -> None:
        """Forget a segment, wherever it is."""
        self.unreferenced.discard(id)
        self._drop(id, start)

    def _drop(self, id: Uuid, start: int) -> None:
        slot = bisect_left(self._starts, start)
        if slot < len(self._ids) and self._starts[slot] == start and self._ids[slot] == id:
            del self._starts[slot], self._ends[slot], self._ids[slot]
