"""One ShareFetch from its first look at the partitions to its answer.

It looks at all partitions that can be acquired from, and is answered when these have enough, or one has an error, or
its time is up. Until then it holds nothing: records are acquired with the look that answers, in the order of the
request, and what it may have at most counts over all partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.model.errors import KafkaError, OffsetOutOfRange, UnknownServerError
from kavka.model.share import SharePartitionKey
from kavka.model.types import FileSlice
from kavka.replica.batch_headers import BatchHeader, aborts, headers_of, part_of
from kavka.replica.fetching import FetchEntry
from kavka.replica.partition import FetchRead
from kavka.replica.tier import RemoteRead, arrived
from kavka.runtime.led_share import LedShare
from kavka.runtime.share_interest import ShareInterest, Where
from kavka.share.aborted import TransactionalBatch, aborted_ranges
from kavka.share.acquiring import Acquired, DeliveryLimits, LogBatch, Wanted
from kavka.share.partition import FENCING, SharePartition

logger = logging.getLogger(__name__)


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
    limits: DeliveryLimits
    records: bytes | FileSlice = b""
    headers: list[BatchHeader] = field(default_factory=list)
    aborted: Sequence[tuple[int, int]] = ()
    error: KafkaError | None = None
    is_moved: bool = False
    """Whether the log begins later than the group thought."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say of the partition."""
        return not self.headers and self.error is None and not self.is_moved


class _ReadAt(NamedTuple):
    """A read from tiered storage, and the offset that it begins at."""

    offset: int
    asked: RemoteRead


class ShareFetchAttempt:
    """Looks, and looks again whenever one of its partitions has news."""

    def __init__(
        self,
        find: Callable[[SharePartitionKey], LedShare],
        interest: ShareInterest,
        refused: Collection[Where],
        limits: ShareFetchLimits,
        now_ms: Callable[[], int],
    ) -> None:
        """`find` gives a share partition that is led here, or raises KafkaError; what is refused is left out."""
        self._find = find
        self._group_id = interest.session.key.group_id
        self._interest = interest
        self._refused = refused
        self._limits = limits
        self._now_ms = now_ms
        self._remote_reads: dict[LedShare, _ReadAt] = {}
        self.wake: Callable[[], None] | None = None
        """Has it look again; None while it does not wait."""
        self._empty: dict[Where, FetchedShare] = {}
        self.rows: dict[Where, FetchedShare] = {}

    @property
    def answer(self) -> dict[Where, FetchedShare]:
        """What the partitions gave that were looked at."""
        return {**self._empty, **self.rows}

    # -- looking ----------------------------------------------------------------------------------

    def look(self, last: bool) -> bool:
        """Acquire what there is if that is enough, or if this is the last look; whether it is to be answered now."""
        usable = self._usable()
        if not self._interest.rests and all(where in self.rows or where in self._refused for where in self._active):
            return True  # each has an error
        if not usable:
            return last
        share = self._limits.max_bytes // len(usable)
        reads: list[_Read] = []
        total, left = 0, self._limits.max_bytes
        for where, led, machine in usable:
            read = self._read(led, machine, min(share, left), min_one=total == 0)
            if read is None:
                continue  # a remote read is under way
            if read.is_empty:
                self._interest.watch(where, led, rests=True)
                self._empty[where] = FetchedShare()
            reads.append(read)
            total += self._counted(read, share)
            left -= len(read.records)
        enough = total >= self._limits.min_bytes and not self._waits_for_remote
        if last or enough or any(read.error is not None or read.is_moved for read in reads):
            self._acquire(reads)
            return True
        for where, led, _ in usable:
            if where in self._active:
                self._interest.watch(where, led, rests=False)
        return False

    @property
    def _active(self) -> dict[Where, None]:
        return self._interest.active

    def _usable(self) -> list[tuple[Where, LedShare, SharePartition]]:
        """The partitions from which something may be acquired; those that fail have a row with their error."""
        found = []
        for where in list(self._active):
            if where in self.rows or where in self._refused:
                continue
            try:
                led = self._find(SharePartitionKey(self._group_id, *where))
            except KafkaError as error:
                self.rows[where] = FetchedShare(error)
                continue
            machine, is_ours = led.machine, led in self._remote_reads
            if machine is not None and (is_ours or (not led.reading and machine.can_acquire(led.limits))):
                found.append((where, led, machine))
            else:
                self._interest.watch(where, led, rests=True)
        return found

    def _read(self, led: LedShare, machine: SharePartition, max_bytes: int, *, min_one: bool) -> _Read | None:
        """Read a partition from where its group goes on; None while a remote read is under way."""
        known = self._remote_reads.get(led)
        offset = machine.next_fetch_offset() if known is None else known.offset
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
            logger.exception("share partition %s: fetch failed", led.key)
            read.error = UnknownServerError()
        return read

    def _fetch(self, led: LedShare, offset: int, max_bytes: int, min_one: bool) -> FetchRead | None:
        committed, partition = self._limits.committed, led.partition
        entry = FetchEntry(led.key.topic_id, led.key.partition, -1, offset, -1, -1, max_bytes)
        known = self._remote_reads.get(led)
        if known is None:
            found = partition.fetch(entry, committed=committed, max_bytes=max_bytes, min_one=min_one)
            if found.remote_read is None:
                return found
            led.reading = True
            self._remote_reads[led] = known = _ReadAt(offset, found.remote_read)
            found.remote_read.add_done_callback(self._arrived)
        if not known.asked.done():
            return None
        return partition.fetched_remotely(entry, arrived(known.asked), committed=committed, leader_only=True)

    def _arrived(self, asked: RemoteRead) -> None:
        if not asked.cancelled():
            asked.exception()  # seen, even if this fetch has been answered
        self.news()

    @property
    def _waits_for_remote(self) -> bool:
        return not all(asked.done() for _, asked in self._remote_reads.values())

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
            where = read.led.key.topic_id, read.led.key.partition
            row = self.rows[where] = FetchedShare(read.error)
            if read.error is not None:
                if isinstance(read.error, FENCING):
                    read.led.drop(read.error)
            elif read.is_moved:
                read.machine.log_start_moved(read.led.partition.log_start_offset)
            elif read.headers:
                try:
                    row.acquired = self._acquire_from(read, left)
                except KafkaError as error:
                    row.error = error
                left -= sum(last - first + 1 for first, last, _ in row.acquired)
                if row.acquired:
                    self._interest.gave(where)
                    row.records = sent(read, row.acquired[0].first_offset, row.acquired[-1].last_offset)

    def _acquire_from(self, read: _Read, most: int) -> list[Acquired]:
        limits, led = self._limits, read.led
        batches = [LogBatch(batch.base_offset, batch.last_offset) for batch in read.headers]
        wanted = Wanted(limits.member, most, limits.batch_size, limits.mode)
        aborted = aborted_in(read) if read.aborted else ()
        acquired = read.machine.acquire(wanted, read.offset, batches, read.limits, self._now_ms(), aborted)
        led.acquired(acquired)
        return acquired

    # -- waiting ----------------------------------------------------------------------------------

    def news(self) -> None:
        """Something has changed."""
        if self.wake is not None:
            self.wake()

    def leave(self) -> None:
        """Wait for nothing any more."""
        self.wake = None
        for led in self._remote_reads:
            led.reading = False
            led.wake()
        self._remote_reads.clear()


def aborted_in(read: _Read) -> list[tuple[int, int]]:
    """The ranges of what was read that aborted transactions wrote."""
    batches = [
        TransactionalBatch(
            batch.base_offset, batch.last_offset, batch.producer_id, batch.transactional, aborts(read.records, batch)
        )
        for batch in read.headers
        if batch.producer_id >= 0
    ]
    return aborted_ranges(batches, read.aborted)


def sent(read: _Read, first: int, last: int) -> bytes | FileSlice:
    """The batches that have the records from an offset to another, as they lie in the log."""
    chosen = [batch for batch in read.headers if batch.last_offset >= first and batch.base_offset <= last]
    if not chosen:
        return b""
    return part_of(read.records, chosen[0].position, chosen[-1].position + chosen[-1].size)
