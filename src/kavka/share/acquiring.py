"""One acquisition: which of the records that were read from the log a member gets.

The unit is the batch of the log. What is new is acquired up to the end of the batch that reaches the limit; what is
available again is acquired as it was acquired before. Only a client that asks for a strict limit gets parts of batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kavka.model.share import ACQUIRED, AVAILABLE
from kavka.share.window import InFlightBatch, InFlightState, Window

BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1

FIRST_DELIVERIES: Final = 2
"""However low the limit of deliveries is, that many are not narrowed."""


class DeliveryLimits(NamedTuple):
    """The settings of a group that count at each use."""

    max_record_locks: int = 2000
    delivery_count: int = 5
    lock_ms: int = 30_000
    renew: bool = True
    delay_ms: int = 0
    """How long a record that was released waits before it is delivered again; twice as long each further time."""
    max_delay_ms: int = 0

    @property
    def longest_delay_ms(self) -> int:
        """How long a released record may wait."""
        return max(self.delay_ms, self.max_delay_ms)

    def delay_of(self, delivery_count: int, asked_ms: int = -1) -> int:
        """How long a record waits that was delivered so often; or as long as whoever released it has asked for."""
        grown_ms = self.delay_ms << min(max(0, delivery_count - 1), 30)
        return min(self.longest_delay_ms, asked_ms if asked_ms >= 0 else grown_ms)


MOST_WAITING: Final = 4
"""So many times the limit of locks may be in flight where released records wait: they must not hold up the others."""


def room_beside_waiting(window: Window, limits: DeliveryLimits) -> int:
    """How many records may come into flight if those that only wait do not count."""
    most = min(limits.max_record_locks + window.waiting, MOST_WAITING * limits.max_record_locks)
    return most - window.in_flight


class LogBatch(NamedTuple):
    """A batch of the log, as far as an acquisition needs to know it."""

    base_offset: int
    last_offset: int


class Wanted(NamedTuple):
    """What a member asks of one share partition."""

    member: str
    max_records: int
    batch_size: int
    mode: int = BATCH_OPTIMIZED


class Acquired(NamedTuple):
    """Records that a member got."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acquisition:
    """Changes a window; `acquired` is what the member got of it."""

    def __init__(self, window: Window, wanted: Wanted, limits: DeliveryLimits, now_ms: int) -> None:
        self.acquired: list[Acquired] = []
        self._window = window
        self._wanted = wanted
        self._limits = limits
        self._deadline_ms = now_ms + limits.lock_ms
        self._narrow_from = max(FIRST_DELIVERIES, (limits.delivery_count + 1) // 2)
        self._count = 0
        self._max = 0
        self._first = self._last = 0

    def run(self, fetch_offset: int, batches: Sequence[LogBatch]) -> None:
        """Acquire from batches that were read from an offset on."""
        window = self._window
        if self._wanted.max_records <= 0 or not batches or batches[-1].last_offset < window.start_offset:
            return
        self._limit(fetch_offset, batches[-1].last_offset)
        if self._max <= 0:
            return
        self._first = base = batches[0].base_offset
        if fetch_offset < base:  # compaction took what was there
            window.complete_count += window.archive(fetch_offset, base, AVAILABLE)
        place = window.floor(base)
        if place >= 0 and window.batches[place].last >= base:
            base = window.batches[place].first
        else:
            base = max(base, window.start_offset)
        begin, end = window.span(min(self._first, base), self._last)
        if begin == end:
            self._acquire_new(batches, base, self._last)
            return
        last_known = window.batches[end - 1].last
        known = window.batches[begin:end] if window.has_gaps else window.maybe_free(begin, end)
        self._acquire_known(batches, base, known)
        if self._count < self._max and last_known < self._last:
            self._acquire_new(batches, last_known + 1, self._last)
        if self.acquired:
            window.read_until(self.acquired[-1].last_offset + 1)

    def _limit(self, fetch_offset: int, last: int) -> None:
        """How many records may be acquired, and how far: at the limit of locks only amid what is in flight."""
        window, wanted = self._window, self._wanted.max_records
        self._last = last
        room = self._limits.max_record_locks - window.in_flight
        if room < wanted and self._limits.longest_delay_ms:
            room = room_beside_waiting(window, self._limits)
        self._max = min(wanted, room)
        if self._max <= 0 and fetch_offset <= window.end_offset:
            self._max = min(wanted, window.end_offset - fetch_offset + 1)
            self._last = min(last, window.end_offset)

    # -- what is in flight --------------------------------------------------------------------------

    def _acquire_known(self, batches: Sequence[LogBatch], base: int, known: Iterable[InFlightBatch]) -> None:
        window = self._window
        for batch in known:
            if self._count >= self._max:
                return
            if window.has_gaps:
                if base < batch.first:
                    self._acquire_new(batches, base, batch.first - 1)
                base = batch.last + 1
                if self._count >= self._max:
                    return
            if not self._acquire_again(batch):
                self._max = 0
                return

    def _acquire_again(self, batch: InFlightBatch) -> bool:
        """Acquire what is available again of a batch; false if nothing more may go with it."""
        narrow = self._is_narrow(batch)
        if narrow and self._count:
            return False
        held = batch.whole
        cut = self._wanted.mode == RECORD_LIMIT and len(batch) > self._max - self._count
        if held is not None:
            if not held.is_free:
                return True
            if batch.first >= self._first and batch.last <= self._last and not cut and not narrow:
                held.acquire(self._wanted.member, self._deadline_ms)
                batch.peak = max(batch.peak, held.count)
                self._got(batch.first, batch.last, held.count)
                return True
            batch.split()
        return not (self._acquire_part(batch) and narrow)

    def _is_narrow(self, batch: InFlightBatch) -> bool:
        """Whether it has records that were delivered often: the bad one is to be found before all are lost."""
        if batch.peak < self._narrow_from:
            return False
        return any(
            held.count >= self._narrow_from and held.is_free
            for low, high, held in batch.parts()
            if batch.whole is not None or self._first <= low <= self._last
        )

    def _acquire_part(self, batch: InFlightBatch) -> int:
        """Acquire the free records of a batch that lie in what was read; how many there were."""
        limit, last_chance = self._limits.delivery_count, self._limits.delivery_count > 2
        room = self._max - self._count if self._wanted.mode == RECORD_LIMIT else len(batch)
        found: list[int] = []
        if batch.first_free() < 0:
            return 0
        narrowed = False
        begin = max(self._first - batch.first, batch.low)
        for place in range(begin, min(self._last, batch.last) - batch.first + 1):
            held = batch.each[place]
            if not held.is_free:
                continue
            if last_chance and held.count == limit - 1 and found:
                break  # it goes alone, next time
            if held.count >= self._narrow_from and not narrowed:
                narrowed = True
                narrow_room = max(1, len(batch) >> (held.count - self._narrow_from + 1))
                room = min(room, narrow_room) if len(found) < narrow_room else room
            held.acquire(self._wanted.member, self._deadline_ms)
            batch.peak = max(batch.peak, held.count)
            found.append(place)
            if (last_chance and held.count == limit) or len(found) == room:
                break
        self._got_places(batch, found)
        return len(found)

    def _got_places(self, batch: InFlightBatch, places: list[int]) -> None:
        """Neighbours that were delivered equally often are one range."""
        begin = 0
        for at in range(1, len(places) + 1):
            first, before = places[begin], places[at - 1]
            count = batch.each[first].count
            if at < len(places) and places[at] == before + 1 and batch.each[places[at]].count == count:
                continue
            self._got(batch.first + first, batch.first + before, count)
            begin = at

    def _got(self, first: int, last: int, delivery_count: int) -> None:
        self.acquired.append(Acquired(first, last, delivery_count))
        self._count += last - first + 1

    # -- what is new --------------------------------------------------------------------------------

    def _acquire_new(self, batches: Sequence[LogBatch], first: int, last: int) -> None:
        """Take records into flight that were not before, to the end of the batch of the log that reaches the limit."""
        window, room = self._window, self._max - self._count
        if not window.batches:
            first = max(first, window.end_offset)
        if first > last:
            return  # compaction took all that is in flight, and more is not allowed
        if room < last - first + 1:
            end = _end_of_batch(batches, first + room - 1)
            last = min(end, last) if window.has_gaps else end
        if self._wanted.mode == RECORD_LIMIT:
            until = min(last, first + room - 1)
            self._lock(first, last, until)
            self._got(first, until, 1)
        else:
            until = last
            for low, high in _ranges(batches, first, last, self._wanted.batch_size):
                self._lock(low, high, high)
                self._got(low, high, 1)
        if window.batches[0].first == first:
            window.start_offset = first
        window.end_offset = max(window.end_offset, last)
        window.read_until(until + 1)

    def _lock(self, first: int, last: int, until: int) -> None:
        """A new batch, acquired up to an offset: the rest of it stays available."""
        member = self._wanted.member
        batch = InFlightBatch(first, last, InFlightState(ACQUIRED, 1, member, self._deadline_ms))
        self._window.insert(batch)
        if until < last:
            batch.split()
            for place in range(until - first + 1, len(batch)):
                batch.each[place] = InFlightState(AVAILABLE, 0)
            batch.low = until - first + 1
            self._window.freed(until + 1)


def _end_of_batch(batches: Sequence[LogBatch], offset: int) -> int:
    """The last offset of the batch that an offset is in; itself in a hole."""
    place = bisect_right(batches, offset, key=lambda batch: batch.base_offset) - 1
    return max(offset, batches[place].last_offset) if place >= 0 else offset


def _ranges(batches: Sequence[LogBatch], first: int, last: int, size: int) -> list[tuple[int, int]]:
    """A range divided where batches of the log begin, into parts of at least a size."""
    ranges, size = [], max(1, size)
    if last - first + 1 > size:
        for batch in batches:
            if batch.base_offset > last:
                break
            if batch.base_offset - first >= size:
                ranges.append((first, batch.base_offset - 1))
                first = batch.base_offset
    ranges.append((first, last))
    return ranges
