"""One ShareFetch from its first look at the partitions to its answer.

It looks at all partitions that can be acquired from, and is answered when these have enough, or one has an error, or
its time is up. Until then it holds nothing: records are acquired with the look that answers, in the order of the
request, and what it may have at most counts over all partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.model.errors import KafkaError, OffsetOutOfRange, UnknownServerError
from kavka.model.share import SharePartitionKey
from kavka.model.types import FileSlice, Uuid
from kavka.replica.batch_headers import BatchHeader, aborts, headers_of, part_of
from kavka.replica.fetching import FetchEntry
from kavka.replica.partition import FetchRead
from kavka.replica.tier import RecordsElsewhere, arrived
from kavka.runtime.led_share import LedShare
from kavka.share.aborted import TransactionalBatch, aborted_ranges
from kavka.share.acquiring import Acquired, Limits, LogBatch, Wanted
from kavka.share.partition import FENCING, SharePartition

logger = logging.getLogger(__name__)

Where = tuple[Uuid, int]
"""Topic id and partition."""


class ShareFetchLimits(NamedTuple):
    """What a ShareFetch wants."""

    member: str
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: int
    committed: bool


@dataclass(slots=True)
class FetchedShare:
    """What one partition gives."""

    error: KafkaError | None = None
    records: bytes | FileSlice = b""
    acquired: Sequence[Acquired] = ()


@dataclass(slots=True)
class _Read:
    """What was read of one partition, and from where on."""

    led: LedShare
    machine: SharePartition
    offset: int
    limits: Limits
    records: bytes | FileSlice = b""
    headers: list[BatchHeader] = field(default_factory=list)
    aborted: Sequence[tuple[int, int]] = ()
    error: KafkaError | None = None
    is_moved: bool = False
    """Whether the log begins later than the group thought."""


class ShareFetchAttempt:
    """Looks, and looks again whenever one of its partitions has news."""

    def __init__(
        self,
        find: Callable[[SharePartitionKey], LedShare],
        group_id: str,
        partitions: Sequence[Where],
        limits: ShareFetchLimits,
        now_ms: Callable[[], int],
    ) -> None:
        """`find` gives a share partition that is led here, or raises KafkaError."""
        self._find = find
        self._group_id = group_id
        self._partitions = partitions
        self._limits = limits
        self._now_ms = now_ms
        self._elsewhere: dict[LedShare, tuple[int, RecordsElsewhere]] = {}
        self._watched: set[LedShare] = set()
        self.wake: Callable[[], None] | None = None
        """Has it look again; None while it does not wait."""
        self.rows: dict[Where, FetchedShare] = {}

    # -- looking ----------------------------------------------------------------------------------

    def look(self, last: bool) -> bool:
        """Acquire what there is if that is enough, or if this is the last look; whether it is to be answered now."""
        usable = self._usable()
        if self._partitions and len(self.rows) == len(self._partitions):
            return True  # each has an error
        if not usable:
            return last
        share = self._limits.max_bytes // len(usable)
        reads: list[_Read] = []
        total, left = 0, self._limits.max_bytes
        for led, machine in usable:
            one = self._read(led, machine, min(share, left), min_one=total == 0)
            if one is None:
                continue  # what is elsewhere is waited for
            reads.append(one)
            total += self._counted(one, share)
            left -= len(one.records)
        enough = total >= self._limits.min_bytes and not self._waits_elsewhere
        if not (last or enough or any(one.error is not None or one.is_moved for one in reads)):
            return False
        self._acquire(reads)
        return True

    def _usable(self) -> list[tuple[LedShare, SharePartition]]:
        """The partitions from which something may be acquired; those that fail have a row with their error."""
        found = []
        for where in self._partitions:
            if where in self.rows:
                continue
            try:
                led = self._find(SharePartitionKey(self._group_id, *where))
            except KafkaError as error:
                self.rows[where] = FetchedShare(error)
                continue
            machine = led.machine
            if machine is None or (led.reading and led not in self._elsewhere):
                continue
            if led in self._elsewhere or machine.can_acquire(led.limits):
                found.append((led, machine))
        return found

    def _read(self, led: LedShare, machine: SharePartition, max_bytes: int, *, min_one: bool) -> _Read | None:
        """Read a partition from where its group goes on; None while that is elsewhere."""
        known = self._elsewhere.get(led)
        offset = machine.next_fetch_offset() if known is None else known[0]
        read = _Read(led, machine, offset, led.limits)
        try:
            found = self._fetch(led, offset, max_bytes, min_one)
            if found is None:
                return None
            if found.records:
                read.records = found.records
                until = max(offset, machine.window.end_offset + 1) + self._limits.max_records - 1
                read.headers = headers_of(found.records, until)
                read.aborted = found.aborted or ()
        except OffsetOutOfRange:
            read.is_moved = True
        except KafkaError as error:
            read.error = error
        except Exception:
            logger.exception("%s cannot be read", led.key)
            read.error = UnknownServerError()
        return read

    def _fetch(self, led: LedShare, offset: int, max_bytes: int, min_one: bool) -> FetchRead | None:
        committed, partition = self._limits.committed, led.partition
        entry = FetchEntry(led.key.topic_id, led.key.partition, -1, offset, -1, -1, max_bytes)
        known = self._elsewhere.get(led)
        if known is None:
            found = partition.fetch(entry, committed=committed, max_bytes=max_bytes, min_one=min_one)
            if found.elsewhere is None:
                return found
            led.reading = True
            self._elsewhere[led] = known = (offset, found.elsewhere)
            found.elsewhere.add_done_callback(self._arrived)
        if not known[1].done():
            return None
        return partition.fetched_elsewhere(entry, arrived(known[1]), committed=committed, leader_only=True)

    def _arrived(self, asked: RecordsElsewhere) -> None:
        if not asked.cancelled():
            asked.exception()  # seen, even if this fetch has been answered
        self.news()

    @property
    def _waits_elsewhere(self) -> bool:
        return not all(asked.done() for _, asked in self._elsewhere.values())

    def _counted(self, read: _Read, share: int) -> int:
        """How many bytes count as there: as many as are asked for, if there is more than what was read."""
        if not read.headers:
            return 0
        partition = read.led.partition
        end = partition.last_stable_offset if self._limits.committed else partition.high_watermark
        return max(share, len(read.records)) if read.headers[-1].last_offset + 1 < end else len(read.records)

    # -- acquiring --------------------------------------------------------------------------------

    def _acquire(self, reads: Sequence[_Read]) -> None:
        left = self._limits.max_records
        for read in reads:
            row = self.rows[read.led.key.topic_id, read.led.key.partition] = FetchedShare(read.error)
            if read.error is not None:
                if isinstance(read.error, FENCING):
                    read.led.drop(read.error)
            elif read.is_moved:
                read.machine.log_start_moved(read.led.partition.log_start_offset)
            elif read.headers:
                row.acquired = self._acquire_from(read, left)
                left -= sum(last - first + 1 for first, last, _ in row.acquired)
                if row.acquired:
                    row.records = sent(read, row.acquired[0].first_offset, row.acquired[-1].last_offset)

    def _acquire_from(self, read: _Read, most: int) -> list[Acquired]:
        limits, led = self._limits, read.led
        batches = [LogBatch(one.base_offset, one.last_offset) for one in read.headers]
        wanted = Wanted(limits.member, most, limits.batch_size, limits.mode)
        aborted = aborted_in(read) if read.aborted else ()
        acquired = read.machine.acquire(wanted, read.offset, batches, read.limits, self._now_ms(), aborted)
        led.acquired(acquired)
        return acquired

    # -- waiting ----------------------------------------------------------------------------------

    def watch(self) -> None:
        """Be told of what is appended, and of what becomes available again."""
        for where in self._partitions:
            if where in self.rows:
                continue
            try:
                led = self._find(SharePartitionKey(self._group_id, *where))
            except KafkaError:
                continue  # the next look says so
            led.waiting.add(self)
            led.partition.watchers[self] = None
            self._watched.add(led)

    def news(self) -> None:
        """Something has changed."""
        if self.wake is not None:
            self.wake()

    def leave(self) -> None:
        """Wait for nothing any more."""
        self.wake = None
        for led in self._watched:
            led.waiting.discard(self)
            led.partition.watchers.pop(self, None)
        self._watched.clear()
        for led in self._elsewhere:
            led.reading = False
            led.wake()
        self._elsewhere.clear()


def aborted_in(read: _Read) -> list[tuple[int, int]]:
    """The ranges of what was read that aborted transactions wrote."""
    batches = [
        TransactionalBatch(
            one.base_offset, one.last_offset, one.producer_id, one.transactional, aborts(read.records, one)
        )
        for one in read.headers
        if one.producer_id >= 0
    ]
    return aborted_ranges(batches, read.aborted)


def sent(read: _Read, first: int, last: int) -> bytes | FileSlice:
    """The batches that have the records from an offset to another, as they lie in the log."""
    chosen = [one for one in read.headers if one.last_offset >= first and one.base_offset <= last]
    if not chosen:
        return b""
    return part_of(read.records, chosen[0].position, chosen[-1].position + chosen[-1].size)
