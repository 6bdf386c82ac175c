"""The records of one share partition that are in flight: between the share partition's start offset and its end offset.

Records that were acquired together are one batch with one state, until something happens to a part of them: then each
record of the batch has its own. The batches are in order and do not overlap; there may be holes between them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final

from kavka.model.errors import UnknownServerError
from kavka.model.share import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, StateBatch

NOBODY: Final = ""
WAITING: Final = "nobody, until it may be delivered again"
"""Who has a record that was released and is to wait: longer than any member's id."""
UNLOCKED: Final = -1


class InFlightState:
    """The state of a record, or of all the records of a batch while they are alike."""

    __slots__ = ("count", "deadline_ms", "delay_ms", "member", "state", "undo")

    def __init__(self, state: int, count: int, member: str = NOBODY, deadline_ms: int = UNLOCKED) -> None:
        self.state = state
        self.count = count
        """How often it was delivered."""
        self.member = member
        self.deadline_ms = deadline_ms
        """When the lock of its member ends."""
        self.delay_ms = -1
        """How long it is to wait once it is released; -1: as the group's settings say."""
        self.undo: str | None = None
        """While a change of what was acquired is being written: the member to give it back to if that fails."""

    def copy(self) -> InFlightState:
        """Another in the same state."""
        held = InFlightState(self.state, self.count, self.member, self.deadline_ms)
        held.delay_ms, held.undo = self.delay_ms, self.undo
        return held

    @property
    def is_free(self) -> bool:
        """Whether it can be acquired."""
        return self.state == AVAILABLE and self.undo is None

    @property
    def is_settled(self) -> bool:
        """Whether it is never delivered again, whatever becomes of a write."""
        return self.state > ACQUIRED and self.undo is None

    def acquire(self, member: str, deadline_ms: int) -> None:
        """Deliver it once more."""
        self.state, self.member, self.deadline_ms, self.delay_ms = ACQUIRED, member, deadline_ms, -1
        self.count += 1

    def let_go(self, state: int, limit: int) -> None:
        """Take it from its member; one that was delivered as often as it may be is archived instead of freed."""
        self.state = ARCHIVED if state == AVAILABLE and self.count >= limit else state
        self.member = NOBODY

    def archive(self) -> None:
        """It is gone from the log, or was never committed: no write can change that."""
        self.state, self.member, self.deadline_ms, self.undo = ARCHIVED, NOBODY, UNLOCKED, None


class InFlightBatch:
    """Records that were acquired, or loaded, together."""

    __slots__ = ("each", "first", "last", "low", "peak", "settled", "whole")

    def __init__(self, first: int, last: int, whole: InFlightState) -> None:
        self.first = first
        self.last = last
        self.whole: InFlightState | None = whole
        """The state of all of them; None when each has its own."""
        self.each: list[InFlightState] = []
        self.low = 0
        """No record before this place is free."""
        self.settled = 0
        """All records before this place are settled."""
        self.peak = whole.count
        """No record was delivered more often."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def split(self) -> None:
        """From now on each record has its own state."""
        held = self.whole
        if held is not None:
            self.each = [held.copy() for _ in range(len(self))]
            self.whole = None

    def parts(self) -> Iterator[tuple[int, int, InFlightState]]:
        """First offset, last offset and state of each part that has its own."""
        if self.whole is not None:
            yield self.first, self.last, self.whole
        else:
            for offset, held in enumerate(self.each, self.first):
                yield offset, offset, held

    def first_free(self) -> int:
        """The first offset that can be acquired; -1 if there is none."""
        if self.whole is not None:
            return self.first if self.whole.is_free else -1
        each, size = self.each, len(self.each)
        while self.low < size and not each[self.low].is_free:
            self.low += 1
        return self.first + self.low if self.low < size else -1

    def last_settled(self) -> int:
        """The last offset of the settled records at its beginning; the one before `first` if there are none."""
        if self.whole is not None:
            return self.last if self.whole.is_settled else self.first - 1
        each, size = self.each, len(self.each)
        while self.settled < size and each[self.settled].is_settled:
            self.settled += 1
        return self.first + self.settled - 1


class Window:
    """Where a share partition stands, and what of it is in flight."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        """All before it is done with."""
        self.end_offset = start_offset
        """The last offset in flight; the next one to be read if none is."""
        self.batches: list[InFlightBatch] = []
        self.complete_count = 0
        """How many records from the start offset on are acknowledged or archived, or are about to be."""
        self._firsts: list[int] = []
        self._free: list[int] = []
        self._gap_start, self._gap_end = -1, -1

    @classmethod
    def load(cls, start_offset: int, states: Iterable[StateBatch]) -> Window:
        """The window that was persisted; raises UnknownServerError if it makes no sense."""
        window = cls(start_offset)
        expected, gap_start = start_offset, -1
        for state in states:
            if state.first_offset < expected or state.last_offset < state.first_offset:
                raise UnknownServerError(f"persisted records {state[:2]} are not in order from {expected} on")
            if state.first_offset > expected and gap_start < 0:
                gap_start = expected
            expected = state.last_offset + 1
            held = _loaded(state)
            window.insert(InFlightBatch(state.first_offset, state.last_offset, held))
            window.complete_count += len(window.batches[-1]) if held.is_settled else 0
        if window.batches:
            window.end_offset = expected - 1
            window._free = list(window._firsts)
            if gap_start >= 0:
                window._gap_start, window._gap_end = gap_start, window.end_offset
            window.move_start()
        return window

    # -- looking ----------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """How many offsets count as in flight: those that are acknowledged amid others do."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def waiting(self) -> int:
        """How many records in flight only wait to be delivered again."""
        return sum(
            self.counted(first, last)
            for batch in self.batches
            for first, last, held in batch.parts()
            if held.member == WAITING
        )

    @property
    def has_gaps(self) -> bool:
        """Whether offsets between persisted batches are still to be read: they were acquired, and never answered."""
        return self._gap_start >= 0 and self._gap_end == self.end_offset

    def floor(self, offset: int) -> int:
        """The place of the last batch that begins at or before an offset; -1 if there is none."""
        return bisect_right(self._firsts, offset) - 1

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The places of the batches that begin in a range: the first of them, and the one after them."""
        begin = bisect_left(self._firsts, first)
        return begin, max(begin, bisect_right(self._firsts, last))

    def maybe_free(self, begin: int, end: int) -> Iterator[InFlightBatch]:
        """The batches between two places that may have records to be acquired: the others cost nothing."""
        if begin == end:
            return
        free, last = self._free, self._firsts[end - 1]
        at = bisect_left(free, self._firsts[begin])
        while at < len(free) and free[at] <= last:
            yield self.batches[self.floor(free[at])]
            at += 1

    def next_fetch_offset(self) -> int:
        """Where the log is to be read next: the first record that is available again, or what follows the end."""
        if not self.batches or self.start_offset > self.batches[-1].last:
            return self.end_offset
        if self.has_gaps:
            return self._next_with_gaps()
        while self._free:
            offset = self.batches[self.floor(self._free[0])].first_free()
            if offset >= 0:
                return offset
            del self._free[0]
        return self.end_offset + 1

    def _next_with_gaps(self) -> int:
        gap = self._gap_start
        for batch in self.batches:
            if batch.first > gap:
                return gap
            gap = max(gap, batch.last + 1)
            offset = batch.first_free()
            if offset >= 0:
                return offset
        return self.end_offset + 1

    def unsettled(self, first: int, last: int) -> Iterator[tuple[int, int, InFlightState]]:
        """The parts of a range whose change is being written."""
        for place in range(max(0, self.floor(first)), self.floor(last) + 1):
            for low, high, held in self.batches[place].parts():
                if held.undo is not None and low >= first and high <= last:
                    yield low, high, held

    def counted(self, first: int, last: int) -> int:
        """How many offsets of a range are not before the start offset."""
        return max(0, last - max(first, self.start_offset) + 1)

    # -- changing ---------------------------------------------------------------------------------

    def insert(self, batch: InFlightBatch) -> None:
        """One more batch, in its place."""
        place = bisect_left(self._firsts, batch.first)
        self.batches.insert(place, batch)
        self._firsts.insert(place, batch.first)

    def freed(self, offset: int) -> None:
        """A record may be acquired again."""
        place = self.floor(offset)
        if place < 0 or self.batches[place].last < offset:
            return
        batch = self.batches[place]
        batch.low = min(batch.low, offset - batch.first)
        found = bisect_left(self._free, batch.first)
        if found == len(self._free) or self._free[found] != batch.first:
            insort(self._free, batch.first)

    def read_until(self, offset: int) -> None:
        """Everything before an offset was read from the log: gaps before it are gaps of the log."""
        if self.has_gaps and offset <= self._gap_end:
            self._gap_start = offset
        else:
            self._gap_start = -1

    def archive(self, first: int, end: int, state: int) -> int:
        """Archive what is in a state, from an offset on and before another; how many of them count."""
        archived = 0
        for batch in self.batches[max(0, self.floor(first)) : bisect_left(self._firsts, end)]:
            if batch.last < first or (batch.whole is not None and batch.whole.state != state):
                continue
            if batch.first < first or batch.last >= end:
                batch.split()
                self.freed(batch.first)
            for low, high, held in batch.parts():
                if held.state == state and low >= first and high < end:
                    held.archive()
                    archived += self.counted(low, high)
        return archived

    def move_log_start(self, log_start_offset: int) -> None:
        """What is before the log's start is gone; what of it is acquired stays in memory until it is let go."""
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.complete_count = 0
            return
        self.complete_count -= sum(
            self.counted(first, min(last, log_start_offset - 1))
            for batch in self.batches[: bisect_left(self._firsts, log_start_offset)]
            for first, last, held in batch.parts()
            if held.state > ACQUIRED
        )
        self.archive(self.start_offset, log_start_offset, AVAILABLE)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)

    def move_start(self) -> bool:
        """Forget what is settled at the beginning; whether there was any."""
        if not self._can_move_start():
            return False
        last, settled = self._settled_prefix()
        if last < 0:
            return False
        if last == self.batches[-1].last:
            self.start_offset = self.end_offset = last + 1
            self.complete_count = 0
            self._forget(len(self.batches))
            return True
        place = self.floor(last)
        start, forgotten = last + 1, place
        if last == self.batches[place].last:
            forgotten = place + 1
            start = self.batches[forgotten].first
        self.start_offset = max(self.start_offset, start)
        if forgotten > place and self.has_gaps:
            self.start_offset = min(self.start_offset, self._gap_start)
        self.complete_count -= settled
        self._forget(forgotten)
        return True

    def _can_move_start(self) -> bool:
        place = self.floor(self.start_offset)
        if place < 0:
            return False  # there is a gap at the beginning that is still to be read
        batch = self.batches[place]
        if batch.whole is not None:
            return batch.whole.is_settled
        return batch.each[min(self.start_offset, batch.last) - batch.first].is_settled

    def _settled_prefix(self) -> tuple[int, int]:
        """The last of the settled offsets at the beginning (-1: none), and how many are not before the start offset."""
        found, settled = -1, 0
        for batch in self.batches:
            if self.has_gaps and batch.last >= self._gap_start:
                break
            last = batch.last_settled()
            if last >= batch.first:
                found = last
                settled += self.counted(batch.first, last)
            if last < batch.last:
                break
        return found, settled

    def _forget(self, count: int) -> None:
        del self.batches[:count], self._firsts[:count]
        first = self._firsts[0] if self._firsts else self.end_offset
        del self._free[: bisect_left(self._free, first)]


def _loaded(state: StateBatch) -> InFlightState:
    """A persisted state. No lock outlives the leader that gave it, and what was about to be archived is."""
    if state.delivery_state in (AVAILABLE, ACQUIRED):
        return InFlightState(AVAILABLE, state.delivery_count)
    if state.delivery_state in (ARCHIVING, ARCHIVED):
        return InFlightState(ARCHIVED, state.delivery_count)
    if state.delivery_state == ACKNOWLEDGED:
        return InFlightState(ACKNOWLEDGED, state.delivery_count)
    raise UnknownServerError(f"persisted records have the unknown state {state.delivery_state}")
