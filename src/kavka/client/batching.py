"""What waits to be sent: records gathered into batches, and a partition's batches kept in order.

Nothing here does I/O; times are the caller's monotonic seconds. The rules of order are those of
Kafka's idempotent producer: at most five batches of a partition are unanswered (brokers remember
five), a batch keeps its sequence number for every attempt, and while one must be sent again
nothing else of its partition is sent before it. When the sequence is broken for good, the epoch is
raised and the remaining batches are numbered from zero (KIP-360).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.records.batch import Header, record_fields, scan
from kavka.records.builder import BatchBuilder

MAX_UNANSWERED: Final = 5
RECORD_OVERHEAD: Final = 21
"""The most that length, deltas and counts add to a record's own bytes."""

_MAX_EPOCH: Final = 0x7FFF
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_NEVER: Final = float("inf")


class Delivered(NamedTuple):
    """Where a record went. The offset is -1 when the broker did not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Outcome(NamedTuple):
    """How the sending of a batch ended."""

    base_offset: int = -1
    log_append_time: int = -1
    error: KafkaError | None = None


class Batch:
    """A batch of one partition, from its first record to its outcome."""

    __slots__ = (
        "_encoded",
        "attempts",
        "base_sequence",
        "builder",
        "charge",
        "deadline",
        "in_flight",
        "not_before",
        "outcome",
        "parts",
        "producer_epoch",
        "producer_id",
        "ready_at",
        "seen",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        codec: int,
        level: int | None,
        ready_at: float,
        deadline: float,
        outcome: asyncio.Future[Outcome],
        *,
        transactional: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.builder = BatchBuilder(codec=codec, level=level, transactional=transactional)
        self.ready_at = ready_at
        self.deadline = deadline
        self.outcome = outcome
        self.not_before = 0.0
        self.attempts = 0
        self.in_flight = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.charge = 0
        """The bytes it holds of the producer's buffer."""
        self.parts: list[Batch] = []
        """What became of it when it was too large for the broker."""
        self.seen = False
        """Whether somebody has asked how it went."""
        self._encoded: bytes | None = None

    @property
    def next_sequence(self) -> int:
        """The sequence number of the record after this batch."""
        return (self.base_sequence + self.builder.count) & _SEQUENCE_MASK

    def number(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give it its producer id, epoch and base sequence."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self._encoded = None

    def encoded(self) -> bytes:
        """The batch as it goes over the wire; the same bytes at every attempt."""
        if self._encoded is None:
            self.builder.producer_id = self.producer_id
            self.builder.producer_epoch = self.producer_epoch
            self.builder.base_sequence = self.base_sequence
            self._encoded = self.builder.build()
        return self._encoded

    def end(self, outcome: Outcome) -> None:
        """Tell everyone who waits for its records."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Delivery:
    """The promise that a record will be in the log; await it to learn where, or why not."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._place()[0].outcome.done()

    def result(self) -> Delivered:
        """Where the record went; raises what went wrong, or InvalidStateError while it is on its way."""
        batch, index = self._place()
        batch.seen = True
        base_offset, append_time, error = batch.outcome.result()
        if error is not None:
            raise type(error)(error.message)
        topic, partition = batch.topic_partition
        offset = base_offset + index if base_offset >= 0 else -1
        return Delivered(topic, partition, offset, append_time if append_time >= 0 else self._timestamp)

    def when_done(self, told: Callable[[int, int, KafkaError | None], None]) -> None:
        """Have a function told the partition, the offset (-1 if unknown) and the error; nobody has asked with that."""
        batch, index = self._place()

        def settled(_: object) -> None:
            if batch.parts:
                self.when_done(told)
                return
            base_offset, _append_time, error = batch.outcome.result()
            told(batch.topic_partition.partition, base_offset + index if base_offset >= 0 else -1, error)

        batch.outcome.add_done_callback(settled)

    def __await__(self) -> Generator[object, None, Delivered]:
        while not self.done():
            batch, _ = self._place()
            batch.seen = True
            # The future is the whole batch's: one waiter that is cancelled must not cancel it for the others.
            yield from asyncio.shield(batch.outcome).__await__()
        return self.result()

    def _place(self) -> tuple[Batch, int]:
        batch, index = self._batch, self._index
        while batch.parts:
            for part in batch.parts:
                if index < part.builder.count:
                    batch = part
                    break
                index -= part.builder.count
        return batch, index


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """An upper bound of the bytes that a record adds to a batch."""
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + len(name) * 3 + (len(content) if content else 0)
    return size


class PartitionQueue:
    """The batches of one partition: those that were sent, in order, then those that wait."""

    __slots__ = (
        "_broken",
        "_epoch",
        "_idempotent",
        "_last_acked",
        "_max_unanswered",
        "_may_raise_epoch",
        "_next_sequence",
        "_producer_id",
        "_unresolved",
        "sent",
        "spent_producer_id",
        "topic_partition",
        "waiting",
    )

    def __init__(
        self, topic_partition: TopicPartition, *, idempotent: bool, max_unanswered: int, transactional: bool = False
    ) -> None:
        self.topic_partition = topic_partition
        self.waiting: deque[Batch] = deque()
        self.sent: list[Batch] = []
        self._idempotent = idempotent
        self._may_raise_epoch = not transactional  # the epoch of a transactional producer is its coordinator's
        self._max_unanswered = min(max_unanswered, MAX_UNANSWERED) if idempotent else max_unanswered
        self.spent_producer_id = -1
        """A producer id whose epochs this partition has used up."""
        self._producer_id = -1
        self._epoch = -1
        self._next_sequence = 0
        self._last_acked = -1
        self._broken = False
        self._unresolved: int | None = None

    @property
    def needs_producer_id(self) -> bool:
        """Whether nothing can be sent before the queue has a producer id."""
        return self._idempotent and self._producer_id < 0

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not self.waiting and not self.sent

    @property
    def broken(self) -> bool:
        """Whether the next batch does not follow what the broker has."""
        return self._broken

    def drop_unsent(self) -> list[Batch]:
        """Take out all batches but those in flight."""
        dropped = [batch for batch in self.sent if not batch.in_flight] + list(self.waiting)
        self.sent = [batch for batch in self.sent if batch.in_flight]
        self.waiting.clear()
        return dropped

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Number the batches under this producer id from zero."""
        self._producer_id = producer_id
        self._epoch = epoch
        self._renumber()

    def candidate(self, now: float) -> Batch | None:
        """The batch that may be sent now, if any."""
        if self._broken and self._may_raise_epoch and not any(batch.in_flight for batch in self.sent):
            self._raise_epoch()
        if self._broken or self.needs_producer_id:
            return None
        if self.sent:
            if not all(batch.in_flight for batch in self.sent):
                first = self.sent[0]
                return None if first.in_flight or first.not_before > now else first
            if len(self.sent) >= self._max_unanswered or self._unresolved is not None:
                return None
        elif self._unresolved is not None:
            self._resolve()
            if self._broken or self.needs_producer_id:
                return None
        if not self.waiting:
            return None
        batch = self.waiting[0]
        return batch if batch.ready_at <= now or len(self.waiting) > 1 else None

    def take(self, batch: Batch) -> None:
        """Mark the candidate as in flight."""
        if self.waiting and self.waiting[0] is batch:
            self.waiting.popleft()
            self.sent.append(batch)
            if self._idempotent:
                batch.number(self._producer_id, self._epoch, self._next_sequence)
                self._next_sequence = batch.next_sequence
        batch.in_flight = True
        batch.attempts += 1

    def acknowledge(self, batch: Batch) -> None:
        """The batch is in the log."""
        batch.in_flight = False
        self.sent.remove(batch)
        if self._idempotent and (batch.producer_id, batch.producer_epoch) == (self._producer_id, self._epoch):
            last = (batch.next_sequence - 1) & _SEQUENCE_MASK
            if (last - self._last_acked) & _SEQUENCE_MASK < _SEQUENCE_MASK // 2:
                self._last_acked = last

    def again(self, batch: Batch, not_before: float) -> None:
        """The batch must be sent again, not before a time."""
        batch.in_flight = False
        batch.not_before = not_before

    def refuse(self, batch: Batch) -> None:
        """The broker refused the batch for good: the numbers after it no longer follow."""
        batch.in_flight = False
        self.sent.remove(batch)
        self._broken = self._idempotent

    def out_of_order(self, batch: Batch) -> None:
        """OUT_OF_ORDER_SEQUENCE_NUMBER: the broker misses an earlier batch; find out whether it may still arrive."""
        follows_acked = batch.base_sequence == (self._last_acked + 1) & _SEQUENCE_MASK
        if (self._unresolved is None and follows_acked) or batch.base_sequence == self._unresolved:
            self._broken = True

    def lost_state(self) -> None:
        """UNKNOWN_PRODUCER_ID: start a new sequence."""
        self._broken = True

    def split(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """Put the parts of a batch that was too large in its place, under its numbers."""
        sequence = batch.base_sequence
        for part in parts:
            if self._idempotent:
                part.number(batch.producer_id, batch.producer_epoch, sequence)
                sequence = part.next_sequence
        place = self.sent.index(batch)
        self.sent[place : place + 1] = parts
        batch.parts = list(parts)
        parts[0].charge, batch.charge = batch.charge, 0
        batch.end(Outcome())

    def expire(self, now: float) -> list[Batch]:
        """Give up the batches whose time is over, but for those whose answer may still come."""
        expired = [batch for batch in self.sent if batch.deadline <= now and not batch.in_flight]
        for batch in expired:
            self.sent.remove(batch)
            if self._idempotent:
                # It may be in the log or not; what followed it shows which.
                self._unresolved = batch.next_sequence
        while self.waiting and self.waiting[0].deadline <= now:
            expired.append(self.waiting.popleft())
        return expired

    def wake_at(self, now: float) -> float:
        """When this queue next has something to do that no answer will start."""
        times = [batch.deadline for batch in self.sent if not batch.in_flight]
        if self.sent and not self.sent[0].in_flight:
            times.append(self.sent[0].not_before)
        if self.waiting:
            times += (self.waiting[0].ready_at, self.waiting[0].deadline)
        return min((time for time in times if time > now), default=_NEVER)

    def _resolve(self) -> None:
        self._unresolved = None
        if self._next_sequence != (self._last_acked + 1) & _SEQUENCE_MASK:
            if self._may_raise_epoch:
                self._raise_epoch()
            else:
                self._broken = True

    def _raise_epoch(self) -> None:
        if self._epoch >= _MAX_EPOCH:
            self.spent_producer_id = self._producer_id
            self._producer_id = -1
            self._epoch = -1
        else:
            self._epoch += 1
        self._renumber()

    def _renumber(self) -> None:
        self._broken = False
        self._unresolved = None
        self._last_acked = -1
        self._next_sequence = 0
        for batch in self.sent:
            batch.number(self._producer_id, self._epoch, self._next_sequence)
            self._next_sequence = batch.next_sequence


def halves(batch: Batch, level: int | None, outcomes: Sequence[asyncio.Future[Outcome]]) -> list[Batch]:
    """The records of a batch in two new ones, for a broker that found it too large."""
    data = batch.encoded()
    (info,) = scan(data, check_crc=False)
    fields = record_fields(data, info)
    middle = (len(fields) + 1) // 2
    parts = []
    for outcome, records in zip(outcomes, (fields[:middle], fields[middle:]), strict=True):
        part = Batch(
            batch.topic_partition,
            batch.builder.codec,
            level,
            0.0,
            batch.deadline,
            outcome,
            transactional=info.is_transactional,
        )
        part.seen = batch.seen
        for _, timestamp, key, value, headers in records:
            part.builder.append(key, value, timestamp, headers)
        parts.append(part)
    return parts
