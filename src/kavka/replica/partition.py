"""One partition that this node holds: who leads it, what is appended and committed, and what is given to whom."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kavka.kernels.batches import HEADER_SIZE, accept
from kavka.kernels.layout import ATTRIBUTES_LOW_BYTE, CODEC_MASK
from kavka.metadata.image.cluster import BrokerRegistration
from kavka.metadata.image.topics import PartitionImage
from kavka.metadata.names import is_write_protected
from kavka.model.errors import (
    FencedLeaderEpoch,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetMovedToTieredStorage,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
)
from kavka.model.types import FileSlice, TopicPartition, Uuid
from kavka.records.batch import scan
from kavka.records.validate import Validation, validate
from kavka.replica.fetching import FetchEntry
from kavka.replica.offset_wait import Done, OffsetWait, high_watermark, low_watermark
from kavka.replica.rules import TopicRules
from kavka.replica.tier import RemoteRead, TieredRecords
from kavka.replica.traffic import Traffic
from kavka.replica.unified_log import UnifiedLog
from kavka.replication.isr import BrokerEpoch, IsrChange, IsrOutcome
from kavka.replication.leader import Follower, PartitionLeader
from kavka.replication.throttle import Throttle, throttled
from kavka.storage.log import AppendInfo, AppendOrigin, Log

logger = logging.getLogger(__name__)

NO_EPOCH = -1
HIGH_WATERMARK = -1


class FetchRead(NamedTuple):
    """What one partition has for a fetch: records, or where they are to come from, or nothing."""

    records: bytes | FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None
    diverging: tuple[int, int] | None
    remote_read: RemoteRead | None = None
    """The read from tiered storage to wait for if the offset is before the local log start."""


class PartitionContext(Protocol):
    """What a partition asks of the node that holds it."""

    node_id: int
    max_lag_ms: int
    leader_throttle: Throttle

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """The brokers by what the metadata says of them."""

    def monotonic_ms(self) -> int:
        """The time that lags are measured with."""

    def propose(self, partition: Partition, change: IsrChange) -> None:
        """Propose another ISR to the controller."""


class Partition(UnifiedLog):
    """A replica of a partition on this node, and the only way to its log."""

    __slots__ = (
        "_context",
        "_epoch_start",
        "_led_from",
        "isr",
        "leader",
        "leader_epoch",
        "leadership",
        "led_since",
        "node_id",
        "partition_epoch",
        "replicas",
        "traffic",
        "write_protected",
    )

    def __init__(
        self,
        context: PartitionContext,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        log: Log,
        rules: TopicRules,
        high_watermark: int = 0,
    ) -> None:
        super().__init__(topic_partition, topic_id, log, rules, high_watermark)
        self._context = context
        self.node_id = context.node_id
        self.write_protected = is_write_protected(topic_partition.topic)
        self.leader = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.led_since = NO_EPOCH
        """The leader epoch in which this node came to lead, without a break since."""
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.leadership: PartitionLeader | None = None
        """What is known of the followers, if this node leads and there are any."""
        self._epoch_start = 0
        self.traffic = Traffic()
        self._led_from = 0
        """Up to here the messages are counted that came while this node led."""

    # -- leadership -----------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this node is the partition's leader."""
        return self.leader == self.node_id

    def follow(self, image: PartitionImage) -> None:
        """Take over what the metadata says of this partition; the controller's own answer may have been faster."""
        if image.partition_epoch < self.partition_epoch:
            return
        self.count_messages()
        unbroken = self.leads and image.leader_epoch <= self.leader_epoch + 1  # else another led in between
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        self.leader = image.leader
        new_epoch = image.leader_epoch != self.leader_epoch
        self.leader_epoch = image.leader_epoch
        if self.leads:
            if new_epoch:
                self._epoch_start = self.log.log_end_offset
                self.log.epochs.assign(image.leader_epoch, self._epoch_start)
            if not unbroken:
                self.led_since = image.leader_epoch
                self.leadership = None
            self._lead(image)
            self.reconsider()
        else:
            self.leadership = None
            self._epoch_start = 0
        self._tell_all()

    def count_messages(self) -> None:
        """Add what has come in since this was last done, or since this node leads, to the traffic."""
        end = self.log.log_end_offset
        if self.leads:
            self.traffic.in_messages += end - self._led_from
        self._led_from = end

    def _lead(self, image: PartitionImage) -> None:
        if len(image.replicas) <= 1:
            self.leadership = None
            return
        if self.leadership is None:
            self.leadership = PartitionLeader(self.node_id, self.topic_id, self.topic_partition.partition)
        self.leadership.lead(
            image.leader_epoch,
            image.partition_epoch,
            image.replicas,
            image.isr,
            self._epoch_start,
            self._context.monotonic_ms(),
        )

    def require_epoch(self, client_epoch: int) -> None:
        """Refuse a client whose leader epoch is older or newer than this node's."""
        if client_epoch != NO_EPOCH and client_epoch != self.leader_epoch:
            if client_epoch < self.leader_epoch:
                raise FencedLeaderEpoch(f"{self.topic_partition} is at leader epoch {self.leader_epoch}")
            raise UnknownLeaderEpoch(f"{self.topic_partition} is only at leader epoch {self.leader_epoch}")

    def require_leader(self, client_epoch: int = NO_EPOCH) -> None:
        """Refuse what only the leader may answer."""
        self.require_epoch(client_epoch)
        if self.leader != self.node_id:
            raise NotLeaderOrFollower(f"the leader of {self.topic_partition} is node {self.leader}")

    @property
    def behind_epoch_start(self) -> bool:
        """Whether a new leader has not yet committed up to where its epoch began."""
        return self.high_watermark < self._epoch_start

    # -- writing --------------------------------------------------------------------------

    def append(
        self, data: memoryview, acks: int, now_ms: int, api_version: int, judged: Validation | None = None
    ) -> AppendInfo:
        """Validate, unless that was done before, and append what a producer sent."""
        if self.leader != self.node_id:
            raise NotLeaderOrFollower(f"the leader of {self.topic_partition} is node {self.leader}")
        rules = self.rules
        if acks == -1 and len(self.isr) < rules.min_insync_replicas and len(self.isr) < len(self.replicas):
            raise self._too_few_replicas()
        if judged is not None:
            checked, batches = judged.result()
        else:
            checked, batches = validate(data, rules.produce, now_ms, api_version)
        info = self.log.append_as_leader(checked, batches, self.leader_epoch, now_ms)
        traffic = self.traffic
        traffic.produce_requests += 1
        traffic.in_bytes += len(checked)
        if checked is not data and batches[0].codec != data[ATTRIBUTES_LOW_BYTE] & CODEC_MASK:
            traffic.produce_conversions += batches[0].count
        if self.leadership is None:
            self._commit_all()
        else:
            self._spread(info)
        return info

    def append_plain(self, buffer: memoryview, start: int, end: int, now_ms: int) -> AppendInfo | None:
        """Append the batch in a range as it came, if it is committed by that; None, and nothing done, if it is not.

        What is left out here is served, or refused, by `append`: other replicas, forcing to disk, topics that want
        batches other than they came, batches that are compressed, part of a transaction or not sound.
        """
        rules = self.rules
        produce = rules.produce
        if self.leadership is not None or self.leader != self.node_id or self.write_protected or rules.flushes:
            return None
        if not produce.as_it_came or end - start < HEADER_SIZE or buffer[start + ATTRIBUTES_LOW_BYTE]:
            return None
        batch = accept(buffer, start, end, now_ms, produce.limits)
        if batch is None:
            return None
        info = self.log.append_one(buffer, batch, self.leader_epoch, now_ms)
        traffic = self.traffic
        traffic.produce_requests += 1
        traffic.in_bytes += end - start
        self._commit_all()
        return info

    def append_own(self, batch: bytes, now_ms: int, transaction_version: int = 0) -> int:
        """Append a batch that this node made itself, for all in-sync replicas; its first offset."""
        self.require_leader()
        if len(self.isr) < min(self.rules.min_insync_replicas, len(self.replicas)):
            raise self._too_few_replicas()
        if len(batch) > self.max_batch_bytes:
            raise MessageTooLarge(f"{len(batch)} bytes for {self.topic_partition}: at most {self.max_batch_bytes}")
        batches = scan(batch, check_crc=False)
        origin = AppendOrigin.COORDINATOR
        info = self.log.append_as_leader(batch, batches, self.leader_epoch, now_ms, origin, transaction_version)
        self.traffic.in_bytes += len(batch)
        if self.leadership is None:
            self._commit_all()
        else:
            self._spread(info)
        return info.first_offset

    def _too_few_replicas(self) -> NotEnoughReplicas:
        needed = self.rules.min_insync_replicas
        return NotEnoughReplicas(f"{self.topic_partition} has {len(self.isr)} in-sync replicas, {needed} are needed")

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that may be appended."""
        return self.rules.produce.max_message_bytes

    # -- committing -----------------------------------------------------------------------

    def _commit_all(self) -> None:
        """Without followers, what is written is committed."""
        end = self.log.log_end_offset
        if end > self.high_watermark:
            self.high_watermark = end
            if self.watchers:
                self._tell_watchers()

    def _spread(self, info: AppendInfo) -> None:
        """Let the followers fetch what was appended."""
        if self.leadership is not None and not info.duplicate:
            self.leadership.appended(info.first_offset, self._context.monotonic_ms())
        self.advance()
        self._tell_followers()

    def advance(self) -> None:
        """Advance the high watermark to what all in-sync replicas have."""
        leadership = self.leadership
        if leadership is None:
            if self.leads:
                self._commit_all()
            return
        context = self._context
        found = leadership.high_watermark(
            self.log.log_end_offset,
            self.rules.min_insync_replicas,
            context.monotonic_ms(),
            context.max_lag_ms,
            context.brokers,
        )
        if found > self.high_watermark:
            self.high_watermark = found
            self._tell_watchers()
            for entry in self.end_watchers or ():
                entry.mark()  # a follower hears of it with its next answer, but is not woken for it

    def when_committed(self, offset: int, done: Done, led_since: int | None = None) -> OffsetWait:
        """Call back once what is before an offset is committed, perhaps at once; or with why it will not be here.

        `led_since` tells the leadership in which it was written, if that may have changed since.
        """
        return OffsetWait(self, high_watermark, offset, led_since, done)

    def when_deleted(self, offset: int, done: Done, led_since: int | None = None) -> OffsetWait:
        """Call back once no live replica has anything before an offset; or with why it will not be known here."""
        return OffsetWait(self, low_watermark, offset, led_since, done)

    @property
    def enough_in_sync(self) -> bool:
        """Whether what is committed is on min.insync.replicas replicas."""
        return self.leadership is None or self.leadership.enough(self.rules.min_insync_replicas)

    # -- in-sync replicas -----------------------------------------------------------------

    def shrink_isr(self) -> None:
        """Look for followers that fell behind."""
        if self.leadership is not None:
            context = self._context
            now_ms = context.monotonic_ms()
            change = self.leadership.shrink(self.log.log_end_offset, now_ms, context.max_lag_ms, context.brokers)
            if change is not None:
                context.propose(self, change)
            self.reconsider()

    def reconsider(self) -> None:
        """Look for followers that may join now, and for commits that waited for one that may not join any more."""
        self.advance()
        context = self._context
        for follower in self.leadership.followers.values() if self.leadership is not None else ():
            # One that has not fetched for long is no candidate, even if nothing was committed that it lacks.
            if follower.caught_up(self.log.log_end_offset, context.monotonic_ms(), context.max_lag_ms):
                self._expand(follower)

    def _expand(self, follower: Follower) -> None:
        if self.leadership is not None:
            change = self.leadership.expand(follower, self.high_watermark, self._context.brokers)
            if change is not None:
                self._context.propose(self, change)

    def isr_answered(self, change: IsrChange, outcome: IsrOutcome) -> bool:
        """Take in what the controller answered; whether it has to be asked again."""
        leadership = self.leadership
        if leadership is None:
            return False
        again = leadership.answered(change, outcome)
        if leadership.partition_epoch > self.partition_epoch:
            logger.info("%s: ISR changed to %s", self.topic_partition, ", ".join(map(str, leadership.isr)))
            self._tell_watchers()
        self.partition_epoch = leadership.partition_epoch
        self.isr = leadership.isr
        self.advance()
        return again

    def wants(self, change: IsrChange) -> bool:
        """Whether a change is still to be asked for."""
        return self.leadership is not None and self.leadership.pending is change

    # -- reading --------------------------------------------------------------------------

    def fetch(
        self, entry: FetchEntry, *, committed: bool, max_bytes: int, min_one: bool, leader_only: bool = True
    ) -> FetchRead:
        """Read for a consumer: up to the high watermark, or the last stable offset when it wants committed data."""
        epoch = max(entry.leader_epoch, NO_EPOCH)  # Kafka takes any negative epoch of a fetch as none
        if leader_only:
            self.require_leader(epoch)
        else:
            self.require_epoch(epoch)
        log = self.log
        high_watermark = self.high_watermark
        stable = log.last_stable_offset(high_watermark)
        if entry.last_fetched_epoch >= 0:
            diverging = self._diverging(entry)
            if diverging is not None:
                return FetchRead(None, high_watermark, stable, log.log_start_offset, None, diverging)
        up_to = stable if committed else high_watermark
        if entry.fetch_offset < log.local_log_start_offset:
            remote_read = self._read_remote(entry.fetch_offset, max_bytes, up_to, min_one=min_one, committed=committed)
            nothing = () if committed else None
            return FetchRead(None, high_watermark, stable, log.log_start_offset, nothing, None, remote_read)
        records = log.read(entry.fetch_offset, max_bytes, up_to, min_one)
        aborted: Sequence[tuple[int, int]] | None = None
        if committed:
            aborted = self._aborted(entry.fetch_offset, records)
        return FetchRead(records, high_watermark, stable, log.log_start_offset, aborted, None)

    def fetched_remotely(
        self, entry: FetchEntry, tiered: TieredRecords, *, committed: bool, leader_only: bool
    ) -> FetchRead:
        """What a tier has read for a consumer, if the consumer may still have it."""
        epoch = max(entry.leader_epoch, NO_EPOCH)
        if leader_only:
            self.require_leader(epoch)
        else:
            self.require_epoch(epoch)
        offset, high_watermark, start = entry.fetch_offset, self.high_watermark, self.log.log_start_offset
        if offset < start:
            raise OffsetOutOfRange(f"{self.topic_partition} starts after offset {offset} now")
        aborted: Sequence[tuple[int, int]] | None = None
        if committed:  # a transaction may have ended after what the tier knows
            aborted = [*tiered.aborted, *self._aborted_before(offset, tiered.upper_bound_offset)]
        return FetchRead(tiered.records, high_watermark, self.last_stable_offset, start, aborted, None)

    def preferred_replica(self, rack: str, offset: int) -> int | None:
        """A follower that a consumer of this rack does better to read an offset from (KIP-392)."""
        brokers = self._context.brokers
        own = brokers.get(self.node_id)
        if self.leadership is None or (own is not None and own.rack == rack):
            return None
        for follower in self.leadership.readable_at(offset):
            broker = brokers.get(follower.id)
            if broker is not None and broker.rack == rack and not broker.fenced:
                return follower.id
        return None

    # -- giving to followers ----------------------------------------------------------------

    def fetch_for_follower(
        self, entry: FetchEntry, replica: BrokerEpoch, *, first: bool, max_bytes: int, min_one: bool
    ) -> FetchRead:
        """Read for a follower, committed or not; with the first look at a request, its progress is noted."""
        self.require_leader(max(entry.leader_epoch, NO_EPOCH))
        leadership = self.leadership or PartitionLeader(self.node_id, self.topic_id, self.topic_partition.partition)
        follower = leadership.follower(replica.id, entry.leader_epoch)
        log = self.log
        end = log.log_end_offset
        if entry.last_fetched_epoch >= 0:
            diverging = self._diverging(entry)
            if diverging is not None:
                return FetchRead(None, self.high_watermark, -1, log.log_start_offset, None, diverging)
        if log.log_start_offset <= entry.fetch_offset < log.local_log_start_offset:
            start = log.local_log_start_offset
            raise OffsetMovedToTieredStorage(
                f"{self.topic_partition} has offsets before {start} in tiered storage only"
            )
        context = self._context
        now_ms = context.monotonic_ms()
        records = log.read(entry.fetch_offset, max_bytes, end, min_one)
        if first:
            start = follower.log_start_offset
            leadership.fetched(
                follower, replica.epoch, entry.fetch_offset, entry.log_start_offset, end, now_ms, context.brokers
            )
            if follower.log_start_offset != start:
                self._tell_watchers()  # a deletion may wait for it
            self._expand(follower)
            self.advance()
        if records is not None and follower.id not in self.isr and self.leader_throttled:
            # Only a replica that is not in sync is slowed down: else it would fall out (KIP-73).
            records = None if context.leader_throttle.exceeded(now_ms) else records
        stable = log.last_stable_offset(self.high_watermark)
        return FetchRead(records, self.high_watermark, stable, log.log_start_offset, None, None)

    def knows_progress(self, follower_id: int, offset: int) -> bool:
        """Whether a follower is known to have fetched from an offset; if not, the next request of its session tells.

        What was noted is forgotten when the controller takes it out of the ISR, perhaps while its request waits.
        """
        follower = self.leadership.followers.get(follower_id) if self.leadership is not None else None
        return follower is not None and follower.log_end_offset == offset

    @property
    def leader_throttled(self) -> bool:
        """Whether followers' fetches of this partition count against leader.replication.throttled.rate."""
        names = self.rules.leader_throttled
        return bool(names) and throttled(names, self.topic_partition.partition, self.node_id)

    @property
    def follower_throttled(self) -> bool:
        """Whether this replica's fetches count against follower.replication.throttled.rate."""
        names = self.rules.follower_throttled
        return bool(names) and throttled(names, self.topic_partition.partition, self.node_id)

    # -- removing -------------------------------------------------------------------------

    def delete_records(self, offset: int) -> int:
        """Advance the log start offset; the offset that every live replica's log has to reach."""
        self.require_leader()
        if self.rules.log.compact and not self.rules.log.delete:
            raise PolicyViolation(f"{self.topic_partition} is compacted only: its records cannot be deleted")
        target = self.high_watermark if offset == HIGH_WATERMARK else offset
        if target < 0:
            raise OffsetOutOfRange(f"{target} is no offset of {self.topic_partition}")
        self._start_at(target)
        return target

    def expire_before(self, offset: int) -> None:
        """Let clients read from an offset on: what comes before is about to go from the tier."""
        self.require_leader()
        self._start_at(min(offset, self.high_watermark))

    def _start_at(self, offset: int) -> None:
        self.log.advance_log_start_offset(offset, self.high_watermark)
        self._tell_watchers()
        for entry in self.end_watchers or ():
            entry.mark()

    @property
    def low_watermark(self) -> int:
        """The low watermark: the smallest log start offset of the live replicas."""
        if self.leadership is None:
            return self.log.log_start_offset
        return self.leadership.low_watermark(self.log.log_start_offset, self._context.brokers)

    def close(self) -> None:
        """Let go of waiters; the log is closed by its owner."""
        self.count_messages()
        self.leader = -1
        self.leadership = None
        self._tell_all()
