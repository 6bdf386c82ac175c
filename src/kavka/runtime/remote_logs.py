"""The tiers of a node: what remote segments have of each partition, for those who read it.

Reads go on when whoever asked has stopped waiting, and who asks for the same again waits for the same. How many are
under way, and how many bytes they may bring, is limited apart from everything else that the node does.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kavka.catalog.lineage import Lineage, shared_end
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import RemoteSegment, TopicIdPartition
from kavka.model.errors import KafkaError, KafkaStorageError, OffsetOutOfRange, ReplicaNotAvailable
from kavka.model.types import TopicPartition, Uuid
from kavka.pacing.backseat import Backseat
from kavka.pacing.turn import Turn
from kavka.replica.partition import Partition
from kavka.replica.rules import TopicRules
from kavka.replica.tier import (
    RemoteOffsetLookup,
    RemoteRead,
    RemoteStateRead,
    StateBefore,
    TieredRecords,
    TimestampOffset,
)
from kavka.runtime.remote_catalog.catalog import Key, RemoteCatalog
from kavka.tiered.objects.base import StoreError
from kavka.tiered.segment_reader import SegmentReader

logger = logging.getLogger(__name__)

T = TypeVar("T")

HELD_BACK_SECONDS: Final = 0.2
"""How long a read waits that there is no room for, before its client is told to ask again."""


class Budget(Protocol):
    """How fast bytes may move; over it, one waits."""

    def exceeded(self, now_ms: int) -> bool:
        """Whether more were moved recently than may be."""

    def record(self, size: int, now_ms: int) -> None:
        """So many were moved."""


class HeldPartitions(Protocol):
    """The partitions of this node."""

    def held(self, topic: str | Uuid, index: int) -> Partition | None:
        """A partition if it is held here."""


class _Serving(NamedTuple):
    """What reads are answered from."""

    catalog: RemoteCatalog
    replicas: HeldPartitions


class RemoteLogs:
    """The tier behind each partition, while `run` runs."""

    def __init__(
        self,
        reader: SegmentReader,
        budget: Budget,
        now_ms: Callable[[], int],
        max_pending: Callable[[], int],
        seat: Backseat,
    ) -> None:
        """`seat` is where reads for clients give way to other requests."""
        self.reader = reader
        self.seat = seat
        self._serving: _Serving | None = None
        self.condemned: set[Uuid] = set()
        """Segments that are about to be deleted: what only they have is not safe to lose here."""
        self._budget = budget
        self._now_ms = now_ms
        self._max_pending = max_pending
        self._known: dict[Key, RemoteLog] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: dict[Hashable, Future[Any]] = {}
        self.reads = 0
        self.read_bytes = 0
        self.failed_reads = 0
        self.held_back = 0

    def serve(self, catalog: RemoteCatalog, replicas: HeldPartitions) -> None:
        """Answer from a catalogue for partitions that are loaded; before, nothing is known."""
        self._serving = _Serving(catalog, replicas)

    @property
    def catalog(self) -> RemoteCatalog:
        """What says which remote segments there are; ReplicaNotAvailable before there is one."""
        if self._serving is None:
            raise ReplicaNotAvailable("the remote log metadata has not been opened yet")
        return self._serving.catalog

    def partition(self, key: Key) -> Partition | None:
        """A partition that is held here and loaded."""
        return self._serving.replicas.held(*key) if self._serving is not None else None

    def lineage_of(self, partition: Partition) -> Lineage:
        """The leader epochs of a partition; those that its log has lost are taken from its remote segments."""
        lineage, start, end = partition.lineage, partition.log_start_offset, partition.log_end_offset
        if (lineage[0][1] if lineage else end) > start:
            held = self.catalog.partition((partition.topic_id, partition.topic_partition.partition))
            found = held.reaching_back(lineage, start, end)
            if found != lineage:
                partition.restore_lineage(found)
        return partition.lineage

    def tier_of(self, topic_id: Uuid, topic_partition: TopicPartition, rules: TopicRules) -> RemoteLog:
        """What stands behind the log of a partition."""
        key = topic_id, topic_partition.partition
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = RemoteLog(self, TopicIdPartition(*key, topic_partition.topic))
        return found

    def forget(self, key: Key) -> None:
        """The partition is not held here any more."""
        self._known.pop(key, None)

    @property
    def pending(self) -> int:
        """How many reads are under way."""
        return len(self._under_way)

    async def run(self) -> None:
        """Own the reads, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await self.reader.run()
            finally:
                self._tasks = None

    def has_room(self) -> bool:
        """Whether one more read may begin."""
        if len(self._under_way) >= self._max_pending() or self._budget.exceeded(self._now_ms()):
            self.held_back += 1
            return False
        return True

    def spent(self, size: int) -> None:
        """So many bytes were read for clients."""
        self.read_bytes += size
        self._budget.record(size, self._now_ms())

    def begin(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> Future[T]:
        """What a piece of work comes to; who asks for the same meanwhile gets the same."""
        found: Future[T] | None = self._under_way.get(key)
        if found is None:
            if self._tasks is None:
                raise ReplicaNotAvailable("tiered storage is not read yet")
            found = self._under_way[key] = asyncio.get_running_loop().create_future()
            self._tasks.create_task(self._perform(key, work, found))
        return found

    async def _perform(self, key: Hashable, work: Callable[[], Awaitable[T]], future: Future[T]) -> None:
        self.reads += 1
        try:
            future.set_result(await work())
        except (KafkaError, StoreError) as error:
            self.failed_reads += 1
            future.set_exception(error if isinstance(error, KafkaError) else KafkaStorageError(str(error)))
            future.exception()  # nobody may be waiting any more, and that is no fault
        except Exception as error:
            self.failed_reads += 1
            logger.exception("reading a remote segment failed")
            future.set_exception(KafkaStorageError(f"{type(error).__name__}: {error}"))
            future.exception()
        finally:
            self._under_way.pop(key, None)
            if not future.done():
                future.cancel()


class RemoteLog:
    """What remote segments have of one partition."""

    def __init__(self, logs: RemoteLogs, name: TopicIdPartition) -> None:
        self.name = name
        self.key: Key = name.topic_id, name.partition
        self._logs = logs

    def __repr__(self) -> str:
        return f"RemoteLog({self.name})"

    def _partition(self) -> Partition:
        found = self._logs.partition(self.key)
        if found is None:
            raise ReplicaNotAvailable(f"{self.name.topic}-{self.name.partition} has no replica on this node yet")
        return found

    @property
    def end_offset(self) -> int | None:
        """All before this offset is in finished segments, or in ones that have expired."""
        logs, partition = self._logs, self._logs.partition(self.key)
        if partition is None or not logs.catalog.is_ready(self.key):
            return None
        held, lineage = logs.catalog.partition(self.key), logs.lineage_of(partition)
        if held.copied_up_to(lineage, partition.log_end_offset)[0] < 0:
            return 0
        return held.covered_up_to(partition.local_log_start_offset, lineage, logs.condemned)

    def read(self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool, committed: bool) -> RemoteRead:
        """Read from the segment that has an offset, up to its end at most."""
        held, lineage = self._logs.catalog.partition(self.key), self._logs.lineage_of(self._partition())
        segment = held.find(offset, lineage)
        if segment is None:
            raise OffsetOutOfRange(f"no remote segment has offset {offset} of {self.name.topic}-{self.name.partition}")
        self._logs.seat.own()
        last = min(shared_end(segment, offset, lineage), up_to_offset - 1)
        if last < offset or not self._logs.has_room():
            return nothing(offset)
        key = ("read", self.key, offset, max_bytes, last, min_one, committed)
        return self._logs.begin(key, lambda: self._read(segment, offset, max_bytes, last, min_one, committed))

    async def _read(
        self, segment: RemoteSegment, offset: int, max_bytes: int, last: int, min_one: bool, committed: bool
    ) -> TieredRecords:
        logs = self._logs
        await logs.seat.turn(min(max_bytes, segment.size_bytes))
        lineage = logs.lineage_of(self._partition())
        held = logs.catalog.partition(self.key)
        following = held.following(segment, lineage)
        found = await logs.reader.read(self.name, segment, offset, max_bytes, end_offset=last, following=following)
        if not min_one and len(found.data) > max_bytes:
            return TieredRecords(b"", offset)
        aborted: list[tuple[int, int]] = []
        if committed and found.data:
            aborted = await self._aborted(held, segment, lineage, found.first_offset, found.next_offset)
        logs.spent(len(found.data))
        return TieredRecords(found.data, found.next_offset, aborted)

    async def _aborted(
        self, held: PartitionSegments, segment: RemoteSegment, lineage: Lineage, first: int, upper: int
    ) -> list[tuple[int, int]]:
        """The aborted transactions of a range: their markers may be in any later segment (KIP-1058)."""
        found: list[tuple[int, int]] = []
        after: RemoteSegment | None = segment
        turn = Turn()
        while after is not None:
            transactions, done = await self._logs.reader.aborted(self.name, after, first, upper)
            found += [(aborted.producer_id, aborted.first_offset) for aborted in transactions]
            if done:
                break
            after = held.following(after, lineage)
            await turn.breathe()
        return list(dict.fromkeys(found))

    def search_timestamp(self, timestamp: int, from_offset: int) -> RemoteOffsetLookup:
        """The first record from an offset on that is at least this late."""
        self._logs.catalog.partition(self.key)
        return self._logs.begin(
            ("search", self.key, timestamp, from_offset), lambda: self._search(timestamp, from_offset)
        )

    async def _search(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        partition, catalog = self._partition(), self._logs.catalog
        segments = catalog.partition(self.key).valid(self._logs.lineage_of(partition), partition.log_end_offset)
        for segment in segments:
            late = segment.max_timestamp_ms < 0 or segment.max_timestamp_ms >= timestamp
            if not late or segment.end_offset < from_offset:
                continue
            found = await self._logs.reader.offset_for_time(self.name, segment, timestamp, from_offset)
            if found is not None:
                return TimestampOffset(found.timestamp_ms, found.offset, found.leader_epoch)
            from_offset = max(from_offset, segment.end_offset + 1)
        return None

    def state_after(self, offset: int, leader_epoch: int) -> RemoteStateRead:
        """What a log has to know that begins after the segment which has an offset of a leader epoch."""
        segment = self._logs.catalog.partition(self.key).lookup(leader_epoch, offset)
        if segment is None:
            raise ReplicaNotAvailable(f"no remote segment has offset {offset} of leader epoch {leader_epoch} yet")
        return self._logs.begin(("state", self.key, segment.id), lambda: self._state(segment))

    async def _state(self, segment: RemoteSegment) -> StateBefore:
        epochs = await self._logs.reader.leader_epochs(self.name, segment)
        producers = await self._logs.reader.producer_snapshot(self.name, segment)
        return StateBefore(segment.end_offset + 1, epochs, producers)


def nothing(offset: int) -> RemoteRead:
    """An answer without records, after a while: whoever asks again may get some."""
    loop = asyncio.get_running_loop()
    future: RemoteRead = loop.create_future()
    loop.call_later(HELD_BACK_SECONDS, future.set_result, TieredRecords(b"", offset))
    return future
