"""One fetch request from its first look at the partitions to its answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from kavka.kernels.layout import FetchedPartition, Topic
from kavka.model.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    TopicAuthorizationFailed,
    UnknownServerError,
)
from kavka.model.settings.tiered import REMOTE_FETCH_MAX_WAIT_MS
from kavka.model.types import FileSlice
from kavka.replica.fetching import NO_SESSION, FetchEntry, FetchSet
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.tier import RemoteRead, arrived
from kavka.replica.waiting import Purgatory
from kavka.replication.isr import BrokerEpoch

logger = logging.getLogger(__name__)

NO_REPLICA = -1
ROW_BYTES = 40
"""About what a response has for each partition beside its records."""

FetchedTopics = list[tuple[Topic, list[FetchedPartition]]]
Answer = Callable[[FetchedTopics | None], None]
"""Takes what was read, or None when the session has gone on with another request."""


class FetchLimits(NamedTuple):
    """What a fetch wants at least and at most."""

    min_bytes: int
    max_bytes: int
    committed: bool
    follower: BrokerEpoch | None = None
    """The replica that fetches; None for a consumer."""
    leader_only: bool = True
    """Whether a consumer does not know that it may read from followers (KIP-392)."""
    rack: str = ""


class FetchAttempt:
    """A fetch over a set of partitions: it looks, and looks again whenever one of them has news."""

    __slots__ = (
        "_abandoned",
        "_answer",
        "_epoch",
        "_first",
        "_held_back",
        "_hold",
        "_incremental",
        "_limits",
        "_may_read",
        "_remote_reads",
        "_replicas",
        "_rows",
        "_scope",
        "_urgent",
        "_wake",
        "failed",
        "throttle_ms",
    )

    def __init__(
        self,
        replicas: ReplicaManager,
        scope: FetchSet,
        limits: FetchLimits,
        *,
        incremental: bool,
        may_read: Callable[[str], bool] | None = None,
        hold: Callable[[int], int] | None = None,
    ) -> None:
        """`may_read` says whether the client may read a topic, by its name; without it every client may.

        `hold` is told how much an answer has, and says for how long its client has to wait first.
        """
        self._may_read = may_read
        self._hold = hold
        self._replicas = replicas
        self._scope = scope
        self._epoch = scope.epoch
        self._limits = limits
        self._incremental = incremental
        self._rows: dict[FetchEntry, FetchedPartition] = {}
        self._answer: Answer | None = None
        self._abandoned: Callable[[], bool] | None = None
        self._first = True
        self._held_back = 0
        self._urgent = False
        self._remote_reads: dict[FetchEntry, RemoteRead] | None = None
        self.failed = False
        """Whether a partition has an error, which the response may have to explain."""
        self.throttle_ms = 0
        """For how long nothing is given: the result is empty then, and what it would have had comes another time."""

    def look(self) -> bool:
        """Read what there is; whether that is enough to answer with."""
        scope = self._scope
        left = self._limits.max_bytes
        total = self._held_back = 0
        self.failed = self._urgent = False
        for entry in list(scope.dirty):  # what had nothing at an earlier look, and no news since, keeps its row
            try:
                row, size = self._read(entry, left, total == 0)
            except KafkaError as error:
                self.failed = True
                row, size = self._error_row(entry, error), 0
            except Exception:
                logger.exception("reading %s-%d failed", entry.topic, entry.index)
                self.failed = True
                row, size = self._error_row(entry, UnknownServerError()), 0
            total += size
            left -= size
            self._rows[entry] = row
        self._first = False
        if self._remote_reads is not None:  # as in Kafka, what is in tiered storage decides alone
            return not self._waits_for_remote
        return total + self._held_back >= self._limits.min_bytes or self.failed or self._urgent

    @property
    def _waits_for_remote(self) -> bool:
        return self._remote_reads is not None and not all(asked.done() for asked in self._remote_reads.values())

    def wait_ms(self, max_wait_ms: int) -> int:
        """How long to wait after a look that was not enough: for a tier, as long as this node says."""
        if not self._waits_for_remote:
            return max_wait_ms
        return self._replicas.values[REMOTE_FETCH_MAX_WAIT_MS]

    def _read(self, entry: FetchEntry, left: int, min_one: bool) -> tuple[FetchedPartition, int]:
        limits, may_read = self._limits, self._may_read
        if may_read is not None and isinstance(entry.topic, str) and not may_read(entry.topic):
            raise TopicAuthorizationFailed  # before anything tells whether there is such a topic
        partition = self._replicas.find(entry.topic, entry.index)
        if may_read is not None and not may_read(partition.topic_partition.topic):
            raise TopicAuthorizationFailed
        max_bytes = max(0, min(entry.max_bytes, left))
        if limits.follower is not None:
            return self._read_for_follower(partition, entry, limits.follower, max_bytes, min_one)
        if limits.rack and (sent_on := self._at_other_replica(partition, entry)) is not None:
            return sent_on, 0
        committed = limits.committed
        if self._remote_reads is not None and (asked := self._remote_reads.get(entry)) is not None:
            return self._read_remote(partition, entry, asked)
        records, high_watermark, stable, log_start, aborted, diverging, remote_read = partition.fetch(
            entry, committed=committed, max_bytes=max_bytes, min_one=min_one, leader_only=limits.leader_only
        )
        size = len(records) if records is not None else 0
        if diverging is not None:
            self._urgent = True
            more = (diverging, None, None)
            return (entry.index, 0, high_watermark, stable, log_start, aborted, NO_REPLICA, b"", *more), 0
        if not size:
            if remote_read is not None:
                self._remote_reads = self._remote_reads or {}
                self._remote_reads[entry] = remote_read
                row, size = self._read_remote(partition, entry, remote_read)
                return row, size or max_bytes  # nobody else is to have what this may need
            if partition.has_more(entry, committed):
                # Its first batch has no room beside what others gave. It counts as Kafka counts it, cut.
                self._held_back += 0 if min_one else max_bytes
            else:
                # Nothing to read at this offset: the entry comes back when the partition has news.
                del self._scope.dirty[entry]
                entry.watch(partition)
        elif size < limits.min_bytes and size < max_bytes:
            self._look_on(partition, records)
        return (entry.index, 0, high_watermark, stable, log_start, aborted, NO_REPLICA, records or b""), size

    def _read_remote(self, partition: Partition, entry: FetchEntry, asked: RemoteRead) -> tuple[FetchedPartition, int]:
        """What a tier has read; nothing if it has not yet, and then it is asked for again with the next fetch."""
        limits = self._limits
        if not asked.done():
            stable, log_start = partition.last_stable_offset, partition.log_start_offset
            none_yet = () if limits.committed else None
            return (entry.index, 0, partition.high_watermark, stable, log_start, none_yet, NO_REPLICA, b""), 0
        records, high_watermark, stable, log_start, aborted, *_ = partition.fetched_remotely(
            entry, arrived(asked), committed=limits.committed, leader_only=limits.leader_only
        )
        row = (entry.index, 0, high_watermark, stable, log_start, aborted, NO_REPLICA, records or b"")
        return row, len(records or b"")

    def _at_other_replica(self, partition: Partition, entry: FetchEntry) -> FetchedPartition | None:
        """The row that sends a consumer to a replica in its own rack, answered at once."""
        if not self._replicas.selects_replicas:
            return None
        replica = partition.preferred_replica(self._limits.rack, entry.fetch_offset)
        if replica is None:
            return None
        partition.require_epoch(max(entry.leader_epoch, -1))
        self._urgent = True
        stable, log_start = partition.last_stable_offset, partition.log_start_offset
        return (entry.index, 0, partition.high_watermark, stable, log_start, None, replica, b"")

    def _read_for_follower(
        self, partition: Partition, entry: FetchEntry, follower: BrokerEpoch, max_bytes: int, min_one: bool
    ) -> tuple[FetchedPartition, int]:
        records, high_watermark, stable, log_start, _, diverging, _ = partition.fetch_for_follower(
            entry, follower, first=self._first, max_bytes=max_bytes, min_one=min_one
        )
        if diverging is not None:
            self._urgent = True
            more = (diverging, None, None)
            return (entry.index, 0, high_watermark, stable, log_start, None, NO_REPLICA, b"", *more), 0
        at_end = records is None and entry.fetch_offset >= partition.log_end_offset
        if at_end and partition.knows_progress(follower.id, entry.fetch_offset):
            self._scope.dirty.pop(entry, None)
            entry.watch_end(partition)
        size = len(records) if records is not None else 0
        if 0 < size < self._limits.min_bytes and size < max_bytes:
            self._look_on(partition, records)
        return (entry.index, 0, high_watermark, stable, log_start, None, NO_REPLICA, records or b""), size

    def _look_on(self, partition: Partition, records: bytes | FileSlice | None) -> None:
        """Wait for nothing where the log has more and only gives it in pieces."""
        if isinstance(records, FileSlice) and partition.log.goes_on(records):
            self._urgent = True

    def _error_row(self, entry: FetchEntry, error: KafkaError) -> FetchedPartition:
        leader = None
        aborted = () if self._replicas.held(entry.topic, entry.index) is None else None  # as Kafka answers
        if isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
            leader = self._replicas.leader_of(entry.topic, entry.index)
        return (entry.index, error.code, -1, -1, -1, aborted, NO_REPLICA, b"", None, leader, None)

    def result(self) -> FetchedTopics:
        """What was read last, without what a session's client knows already; nothing if it is held back."""
        topics: FetchedTopics = []
        scope = self._scope
        if self._hold is not None and self._held_for(self._hold) > 0:
            return topics
        last: Topic | None = None
        follows = self._limits.follower is not None
        for entry, row in self._rows.items():
            if not self._worth_telling(entry, row):
                continue
            if entry in scope.dirty and len(row[7] or b""):
                # What was served goes to the end, so that no partition starves the others.
                del scope.dirty[entry]
                scope.dirty[entry] = None
            if entry.topic != last:
                last = entry.topic
                topics.append((last, []))
            topics[-1][1].append(row)
            if follows:
                self._replicas.replicated(entry.topic, entry.index, len(row[7] or b""))
            else:
                self._replicas.given(entry.topic, entry.index, len(row[7] or b""), failed=row[1] != 0)
        self._leave()
        return topics

    def _held_for(self, hold: Callable[[int], int]) -> int:
        """Ask whether the answer may be given; if not, what was read counts as never looked at."""
        size = ROW_BYTES * len(self._rows)
        for row in self._rows.values():
            records = row[7]
            if records is not None:
                size += len(records)
        self.throttle_ms = hold(size)
        if self.throttle_ms > 0:
            for entry in self._rows:
                if entry.owner is self._scope:
                    self._scope.dirty[entry] = None
            self._leave()
        return self.throttle_ms

    def _leave(self) -> None:
        self._scope.wake = None
        if self._scope.id == NO_SESSION:
            self._scope.release()

    def _worth_telling(self, entry: FetchEntry, row: FetchedPartition) -> bool:
        _, error_code, high_watermark, _, log_start, _, _, records, *more = row
        if error_code:
            entry.sent_high_watermark = -1
            return True
        known = entry.sent_high_watermark == high_watermark and entry.sent_log_start_offset == log_start
        entry.sent_high_watermark = high_watermark
        entry.sent_log_start_offset = log_start
        return not (self._incremental and known and not more and not len(records or b"") and row[6] == NO_REPLICA)

    def park(self, wait_ms: int, purgatory: Purgatory, answer: Answer, abandoned: Callable[[], bool]) -> None:
        """Answer when there is enough, or when the time is up; not at all if the client has gone."""
        self._answer = answer
        self._abandoned = abandoned
        self._wake = self._scope.wake = purgatory.park(wait_ms, self._look_again).wake
        self._watch()

    def _watch(self) -> None:
        """Be woken by partitions that have something, but not enough, as by those that have nothing."""
        if self._waits_for_remote:
            self._watch_remote()
            return
        follows = self._limits.follower is not None
        for entry in self._scope.dirty:
            partition = self._replicas.held(entry.topic, entry.index)
            if partition is None:
                continue
            if follows:
                entry.watch_end(partition)
            else:
                entry.watch(partition)

    def _watch_remote(self) -> None:
        """Be woken by remote reads alone: news of the local log would not make the answer any earlier."""
        for asked in (self._remote_reads or {}).values():
            asked.remove_done_callback(self._arrived)
            asked.add_done_callback(self._arrived)

    def _arrived(self, asked: RemoteRead) -> None:
        if not asked.cancelled():
            asked.exception()  # seen, even if this fetch has been answered
        if not self._waits_for_remote:
            self._wake()

    def _look_again(self, last: bool) -> bool:
        assert self._answer is not None
        assert self._abandoned is not None
        if self._scope.epoch != self._epoch:
            self._answer(None)
            return True
        if self._abandoned():
            self._leave()
            return True
        if self._waits_for_remote and not last:
            return False
        if not self.look() and not last:
            self._watch()
            return False
        self._answer(self.result())
        return True
