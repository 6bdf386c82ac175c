"""A partition's log as one, local and in tiered storage: what may be read of it, and what a follower does to it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from kavka.model.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange, ReplicaNotAvailable
from kavka.model.types import FileSlice, TopicPartition, Uuid
from kavka.records.batch import TRUNCATED, scan_prefix
from kavka.replica.fetching import FetchEntry, Watcher
from kavka.replica.rules import TopicRules
from kavka.replica.tier import OffsetSearch, RemoteRead, StateBefore, Tier, arrived
from kavka.replication.follower import committed_offset
from kavka.storage.disk import Buffer, DiskFile
from kavka.storage.log import Log, UnexpectedOffset
from kavka.storage.producer_state import ProducerStates
from kavka.storage.retention import ExpiredSegment
from kavka.storage.segment import TimestampOffset

logger = logging.getLogger(__name__)

NONE_SUCH = TimestampOffset(-1, -1, -1)


class UnifiedLog:
    """The records of a partition, from the log start offset that clients know to the log end offset.

    From the local log start offset on they are on this disk; what comes before is in a tier, if the two differ.
    """

    __slots__ = (
        "end_watchers",
        "high_watermark",
        "log",
        "rules",
        "tier",
        "topic_id",
        "topic_partition",
        "watchers",
    )

    def __init__(
        self, topic_partition: TopicPartition, topic_id: Uuid, log: Log, rules: TopicRules, high_watermark: int
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.rules = rules
        self.tier: Tier | None = None
        self.high_watermark = max(log.local_log_start_offset, min(high_watermark, log.log_end_offset))
        self.watchers: dict[Watcher, None] = {}
        """Who is told of the next commit, in the order in which they came."""
        self.end_watchers: dict[FetchEntry, None] | None = None

    def give_rules(self, rules: TopicRules, tier: Tier | None) -> None:
        """Take over a changed configuration, and what stands behind the log by it."""
        self.rules = rules
        self.log.config = rules.log
        self.tier = tier
        if tier is None and self.log.log_start_offset < self.log.local_log_start_offset:  # nobody has what is not here
            self.log.advance_log_start_offset(self.log.local_log_start_offset, self.high_watermark)

    def move_to(self, log: Log) -> Log:
        """Go on with another log that has the same records; the one until now."""
        log.config = self.rules.log
        before, self.log = self.log, log
        return before

    # -- what it is -------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that clients can read."""
        return self.log.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The local log start offset."""
        return self.log.local_log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where read_committed consumers may read."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def size_bytes(self) -> int:
        """What it takes of this disk."""
        return self.log.size_bytes

    @property
    def lineage(self) -> tuple[tuple[int, int], ...]:
        """The leader epochs of its history with their first offsets, oldest first, wherever their records are."""
        return self.log.epochs.entries

    def restore_lineage(self, lineage: tuple[tuple[int, int], ...]) -> None:
        """Know again the leader epochs that were lost; they reach from those of the log back to its start."""
        logger.warning(
            "%s: leader epochs restored from remote segments: %s, were %s",
            self.topic_partition,
            list(lineage),
            list(self.lineage),
        )
        self.log.epochs.restore(lineage)

    @property
    def retention(self) -> tuple[int, int]:
        """How many milliseconds and bytes of it are kept, all tiers together; negative is for ever."""
        return self.rules.log.retention_ms, self.rules.log.retention_bytes

    def local_bytes_from(self, offset: int) -> int:
        """What the segments take that begin at or after an offset."""
        return sum(segment.size for segment in self.log.segments if segment.base_offset >= offset)

    @property
    def failed(self) -> str | None:
        """Why the log cannot be used any more, if it cannot."""
        return self.log.failed

    @property
    def producers(self) -> ProducerStates:
        """The producers that the log remembers, and their transactions."""
        return self.log.producers

    @property
    def start_is_checkpointed(self) -> bool:
        """Whether the files do not tell where the log starts: they do unless it starts amid, or before, the first."""
        return self.tier is not None or self.log.log_start_offset > self.log.segments[0].base_offset

    @property
    def sync_due(self) -> bool:
        """Whether flush.messages asks for what was appended to be forced to disk before it is acknowledged."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    # -- who waits for news -------------------------------------------------------------------

    def _tell_watchers(self) -> None:
        watchers, self.watchers = self.watchers, {}
        for watcher in watchers:
            watcher.news()

    def _tell_followers(self) -> None:
        watchers, self.end_watchers = self.end_watchers, None
        for watcher in watchers or ():
            watcher.news()

    def _tell_all(self) -> None:
        self._tell_watchers()
        self._tell_followers()

    # -- reading ------------------------------------------------------------------------------

    def read_own(self, offset: int, max_bytes: int) -> bytes:
        """Batches from an offset on, committed or not, the last one perhaps cut short; nothing at the log's end."""
        piece = self.log.read(offset, max_bytes, self.log.log_end_offset)
        if piece is None:
            return b""
        try:
            # What a log gives lies in a file of its disk.
            return cast(DiskFile, piece.file).read_at(piece.position, piece.length)
        except OSError as error:
            raise KafkaStorageError(f"cannot read {self.topic_partition}: {error}") from error

    def _read_remote(
        self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool, committed: bool
    ) -> RemoteRead:
        """Have read what is before the local log start."""
        tier = self._require_in_tier(offset)
        return tier.read(offset, max_bytes, up_to_offset, min_one=min_one, committed=committed)

    def _require_in_tier(self, offset: int) -> Tier:
        tier = self.tier
        if tier is None or offset < self.log.log_start_offset:
            start, end = self.log.log_start_offset, self.log.log_end_offset
            raise OffsetOutOfRange(f"offset {offset} of {self.topic_partition} is not in {start}-{end}")
        return tier

    def _aborted(self, offset: int, records: FileSlice | None) -> Sequence[tuple[int, int]]:
        return () if records is None else self._aborted_before(offset, self.log.upper_bound_offset(records))

    def _aborted_before(self, offset: int, upper_bound: int) -> Sequence[tuple[int, int]]:
        """The aborted transactions between two offsets whose markers are on this disk."""
        found = self.log.aborted_transactions(offset, upper_bound)
        return [(aborted.producer_id, aborted.first_offset) for aborted in found]

    def has_more(self, entry: FetchEntry, committed: bool) -> bool:
        """Whether there is anything to read at the entry's offset, room for it or not."""
        return entry.fetch_offset < (self.last_stable_offset if committed else self.high_watermark)

    def _diverging(self, entry: FetchEntry) -> tuple[int, int] | None:
        log = self.log
        epoch, end_offset = log.epochs.end_offset_for(entry.last_fetched_epoch, log.log_end_offset)
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRange(f"{self.topic_partition} does not know leader epoch {entry.last_fetched_epoch}")
        if entry.fetch_offset < log.log_start_offset:
            raise OffsetOutOfRange(f"{self.topic_partition} starts after offset {entry.fetch_offset}")
        if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
            return epoch, end_offset
        return None

    # -- finding offsets ------------------------------------------------------------------------

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below this one, and where the next one began; (-1, -1) if none is known."""
        return self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)

    def earliest(self) -> TimestampOffset:
        """Where clients can begin."""
        start, known = self.log.log_start_offset, self.log.epochs.earliest
        return TimestampOffset(-1, start, known[0] if known is not None and known[1] <= start else -1)

    def earliest_local(self) -> TimestampOffset:
        """Where this disk begins."""
        if self.tier is None:
            return self.earliest()
        return self._at(self.log.local_log_start_offset)

    def latest_tiered(self) -> TimestampOffset:
        """The last offset that is in the tier."""
        end = self._tiered_end(self.tier) if self.tier is not None else 0
        return self._at(end - 1) if end > 0 else NONE_SUCH

    def earliest_not_tiered(self) -> TimestampOffset:
        """The first offset that is to be copied to the tier."""
        if self.tier is None:
            return NONE_SUCH
        end, start = self._tiered_end(self.tier), self.log.log_start_offset
        if end > 0:
            return self._at(max(end, start))
        return self.earliest() if self.log.local_log_start_offset == start else NONE_SUCH

    def _tiered_end(self, tier: Tier) -> int:
        end = tier.end_offset
        if end is None:  # an answer would be a guess
            raise ReplicaNotAvailable(f"the remote segments of {self.topic_partition} are not known yet")
        return end

    def _at(self, offset: int) -> TimestampOffset:
        epoch = self.log.epochs.epoch_for(offset)
        return TimestampOffset(-1, offset, -1 if epoch is None else epoch)

    def search_timestamp(self, timestamp: int) -> OffsetSearch:
        """The first record whose timestamp is at least this one, in tiered storage and then in the local log."""
        start = self.log.log_start_offset
        if self.tier is not None and start < self.log.local_log_start_offset:
            lookup = self.tier.search_timestamp(timestamp, start)
            yield lookup
            found = arrived(lookup)
            if found is not None:
                return found
        return (yield from self.log.search_timestamp(timestamp))

    def search_max_timestamp(self) -> OffsetSearch:
        """The first record on this disk that has the largest timestamp there."""
        return (yield from self.log.search_max_timestamp())

    # -- following ------------------------------------------------------------------------------

    def append_as_follower(self, data: Buffer, leader_epoch: int, now_ms: int) -> bool:
        """Append what the leader of an epoch gave, checked byte by byte; whether the log has grown."""
        batches, _, reason = scan_prefix(data)
        if reason is not None and reason != TRUNCATED:
            raise CorruptMessage(f"{self.topic_partition} at offset {self.log.log_end_offset}: {reason}")
        log = self.log
        before = log.log_end_offset
        try:
            log.append_as_follower(data, batches, leader_epoch, now_ms)
        except UnexpectedOffset:
            first = batches[0]
            if log.local_log_start_offset != before or not first.base_offset < before <= first.last_offset:
                raise
            # The leader's log starts in the middle of a batch: an empty log may begin with the whole of it.
            start = min(log.log_start_offset, first.base_offset)
            log.truncate_fully_and_start_at(first.base_offset, start, now_ms)
            log.append_as_follower(data, batches, leader_epoch, now_ms)
        return log.log_end_offset > before

    def follow_leader(self, high_watermark: int, log_start_offset: int) -> None:
        """Take over what the leader says is committed, and where its log starts."""
        log = self.log
        committed = committed_offset(self.high_watermark, high_watermark, log.log_end_offset)
        start = min(log_start_offset, committed)
        if start > log.log_start_offset:
            log.advance_log_start_offset(start, committed)
        if committed > self.high_watermark:
            self.high_watermark = committed
            if self.watchers:
                self._tell_watchers()

    def truncate(self, offset: int, now_ms: int) -> None:
        """Remove what the leader does not have."""
        if offset < self.high_watermark:
            logger.warning(
                "%s: truncating to %d, below its high watermark %d", self.topic_partition, offset, self.high_watermark
            )
        self.log.truncate_to(offset, now_ms)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def start_over_at(self, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
        """Remove everything: the leader's log starts after the end of this one, perhaps in tiered storage."""
        logger.warning(
            "%s: truncating fully and starting at %d; log end offset was %d",
            self.topic_partition,
            offset,
            self.log.log_end_offset,
        )
        self.log.truncate_fully_and_start_at(offset, log_start_offset, now_ms)
        self.high_watermark = offset

    def start_over_with(self, state: StateBefore, log_start_offset: int, now_ms: int) -> None:
        """Remove everything and go on where a tier ends, knowing what the records before would have told."""
        logger.info(
            "%s: log starts locally at %d, after what is in tiered storage", self.topic_partition, state.next_offset
        )
        self.log.start_after(state.next_offset, log_start_offset, state.epochs, state.producers, now_ms)
        self.high_watermark = state.next_offset

    # -- retention ------------------------------------------------------------------------------

    def delete_old_segments(self, now_ms: int) -> list[ExpiredSegment]:
        """Delete the local segments that retention expires."""
        tiered_end = None
        if self.tier is not None and not self.rules.copy_disabled:  # else what is here is all there will be (KIP-950)
            tiered_end = self.tier.end_offset or 0
        return self.log.delete_old_segments(now_ms, self.high_watermark, tiered_end)
