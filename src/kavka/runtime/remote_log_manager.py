"""What a leader does for its tiered partitions: copies segments, lets old ones expire, removes what was given up.

Each step is decided from the catalogue and the log as they are, and said in the catalogue before it is done: whoever
leads after a crash goes on where it stopped. A partition whose store fails is tried again with the next look; the
others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Protocol

from kavka.catalog.expiry import (
    Expired,
    LogSpan,
    Retention,
    all_segments,
    dangling,
    expired,
    first_readable,
    to_remove,
)
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import DeleteState, RemoteSegment, SegmentState, TopicIdPartition
from kavka.client.deadline import within
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.live import LiveSettings
from kavka.model.clock import Clock
from kavka.model.errors import InvalidRequest, KafkaError, ResourceNotFound
from kavka.model.settings.tiered import (
    KAVKA_REMOTE_DELETE_DELAY_MS,
    REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE,
    REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE,
    REMOTE_LOG_MANAGER_TASK_INTERVAL_MS,
    REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES,
)
from kavka.model.types import Uuid
from kavka.replica.offloading import Offload, Sealed, lag, next_sealed, open_segment
from kavka.replica.partition import Partition
from kavka.runtime.remote_catalog.catalog import Key
from kavka.runtime.remote_catalog.topic_log import REMOTE_LOG_METADATA
from kavka.runtime.remote_logs import Budget, Held, RemoteLogs
from kavka.tiered.objects.base import StoreError
from kavka.tiered.objects.layout import SegmentRef
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.segments import Readable

logger = logging.getLogger(__name__)

THROTTLED_SECONDS: Final = 0.2
UNREADY_SECONDS: Final = 0.5
"""How soon it is looked again while the catalogue is not read to its end."""
MISSING_INTERVALS: Final = 3
"""For how many intervals between looks a topic has to be missing in the metadata before what it had is given up,
unless it was seen being deleted: this node's metadata may be behind that of whoever wrote of the topic."""


class Partitions(Held, Protocol):
    """The partitions of this node, and the metadata that they follow."""

    @property
    def image(self) -> MetadataImage:
        """The metadata as the partitions know it."""

    def __iter__(self) -> Iterator[Partition]:
        """All of them."""


class Segments(Protocol):
    """Where the segments go: `tiered.objects.segments.SegmentStore`."""

    async def put(
        self, name: TopicIdPartition, segment: RemoteSegment, files: Mapping[Part, Readable | bytes]
    ) -> bytes:
        """Store a segment's files; what the catalogue is to remember of it."""

    async def delete(self, ref: SegmentRef) -> None:
        """Remove all that is stored of a segment."""


class Counts:
    """What was done since the start."""

    def __init__(self) -> None:
        self.copied_segments = 0
        self.copied_bytes = 0
        self.failed_copies = 0
        self.deleted_segments = 0
        self.failed_deletions = 0


class RemoteLogManager:
    """Tends the tiered partitions that this node leads, while `run` runs."""

    def __init__(
        self,
        node_id: int,
        replicas: Partitions,
        logs: RemoteLogs,
        store: Segments,
        settings: LiveSettings,
        clock: Clock,
        budget: Budget,
        new_id: Callable[[], Uuid],
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._logs = logs
        self._catalog = logs.catalog
        self._store = store
        self._settings = settings
        self._clock = clock
        self._budget = budget
        self._new_id = new_id
        self._tasks: asyncio.TaskGroup | None = None
        self._work = {
            "copy": Lane(self._copy, lambda: settings[REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE]),
            "expire": Lane(self._expire, lambda: settings[REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE]),
        }
        self._in_flight: set[Uuid] = set()
        self._missing_since_ms: dict[Key, int] = {}
        self._deleted: set[Uuid] = set()
        self._woken = asyncio.Event()
        self.counts = Counts()

    # -- following the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Look again after a committed change of the metadata that concerns partitions."""
        for topic in delta.deleted_topics.values():
            self._deleted.add(topic.id)
            for index in topic.partitions:
                self._logs.forget((topic.id, index))
        if delta.deleted_topics or delta.created_topics or delta.changed_partitions or delta.configs:
            self._woken.set()

    async def run(self) -> None:
        """Tend until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._woken.clear()
                self._look()
                seconds = self._settings[REMOTE_LOG_MANAGER_TASK_INTERVAL_MS] / 1000
                try:
                    async with within(min(seconds, UNREADY_SECONDS) if self._catalog.unready else seconds):
                        await self._woken.wait()
                except TimeoutError:
                    pass

    def _look(self) -> None:
        """Begin what is to be done, one piece of work of each kind per partition at a time."""
        partitions, led_homes = set[Key](), set[int]()
        for partition in self._replicas:
            if partition.topic_partition.topic == REMOTE_LOG_METADATA:
                if partition.leads:
                    led_homes.add(partition.topic_partition.partition)
            elif partition.tier is not None or partition.rules.deletes_tier:
                key = partition.topic_id, partition.topic_partition.partition
                partitions.add(key)
                if partition.leads and self._catalog.is_ready(key):
                    if partition.tier is not None and not partition.rules.copy_disabled:
                        self._work["copy"].wanted[key] = None
                    self._work["expire"].wanted[key] = None
        self._catalog.require(partitions, led_homes)
        self._look_for_deleted(led_homes)
        self._start()

    def _look_for_deleted(self, led_homes: set[int]) -> None:
        """Whoever leads what remembers a partition finishes its deletion: the topic itself has no leader any more."""
        catalogue, topics = self._catalog.live, self._replicas.image.topics.by_id
        now_ms = self._clock.monotonic_ms()
        before_ms = now_ms - MISSING_INTERVALS * self._settings[REMOTE_LOG_MANAGER_TASK_INTERVAL_MS]
        missing: dict[Key, int] = {}
        for key, held in catalogue.partitions.items() if catalogue is not None else ():
            if key[0] not in topics and held.home in led_homes and self._catalog.is_ready(key):
                missing[key] = since_ms = self._missing_since_ms.get(key, now_ms)
                if since_ms <= before_ms or key[0] in self._deleted or held.delete_state is not None:
                    self._work["expire"].wanted[key] = None
        self._missing_since_ms = missing
        self._deleted &= {key[0] for key in missing}

    def _start(self) -> None:
        if self._tasks is None:
            return
        for lane in self._work.values():
            for key in lane.next():
                self._tasks.create_task(self._tend(lane, key))

    async def _tend(self, lane: Lane, key: Key) -> None:
        try:
            await lane.work(key)
        except (KafkaError, StoreError) as error:
            logger.warning("%s: %s; it is tried again", self._name(key), error)
        except Exception:
            logger.exception("%s could not be tended; it is tried again", self._name(key))
        finally:
            lane.running.discard(key)
        self._start()

    def _name(self, key: Key) -> str:
        partition = self._replicas.held(*key)
        return str(partition.topic_partition) if partition is not None else f"{key[0]}-{key[1]}"

    # -- copying

    async def _copy(self, key: Key) -> None:
        """Copy what a partition has to copy, segment by segment in order, for as long as this node leads it."""
        partition = self._replicas.held(*key)
        if partition is None:
            return
        name, epoch = TopicIdPartition(*key, partition.topic_partition.topic), partition.leader_epoch
        await self._clean_up(name)
        while partition.leads and partition.leader_epoch == epoch and partition.tier is not None:
            done = partition.tier.end_offset
            sealed = next_sealed(partition, done) if done is not None and not partition.rules.copy_disabled else None
            if sealed is None or not sealed.epochs:
                return
            if self._budget.exceeded(self._clock.monotonic_ms()):
                await asyncio.sleep(THROTTLED_SECONDS)
                continue
            self._budget.record(sealed.size_bytes, self._clock.monotonic_ms())
            await self._copy_segment(partition, name, sealed)
            if (partition.tier.end_offset or 0) <= sealed.end_offset:
                return  # what was copied does not count here: another leads, or it was given up

    async def _copy_segment(self, partition: Partition, name: TopicIdPartition, sealed: Sealed) -> None:
        files = open_segment(partition, sealed)
        segment = RemoteSegment(
            self._new_id(),
            sealed.start_offset,
            sealed.end_offset,
            sealed.max_timestamp_ms,
            self._clock.now_ms(),
            sealed.size_bytes,
            self._node_id,
            sealed.epochs,
            SegmentState.COPY_SEGMENT_STARTED,
            not files.has_aborted,
        )
        self._in_flight.add(segment.id)
        try:
            await self._catalog.write(name, lambda catalogue: catalogue.start_copy(name, segment))
            custom = await self._stored(name, segment, files)
            await self._move(name, segment, SegmentState.COPY_SEGMENT_FINISHED, custom)
        finally:
            files.release()
            self._in_flight.discard(segment.id)
        self.counts.copied_segments += 1
        self.counts.copied_bytes += sealed.size_bytes
        offsets = sealed.start_offset, sealed.end_offset
        logger.info("%s: copied offsets %d to %d as %s", partition.topic_partition, *offsets, segment.id)

    async def _stored(self, name: TopicIdPartition, segment: RemoteSegment, files: Offload) -> bytes:
        """Store a segment; if that fails, nothing of it is left, or the catalogue knows that it is to go."""
        most = self._settings[REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES]
        try:
            custom = await self._store.put(name, segment, files.parts)
            if len(custom) > most:
                raise InvalidRequest(f"{len(custom)} bytes of custom metadata: at most {most} are allowed")
        except Exception:
            self.counts.failed_copies += 1
            await self._give_up(name, segment)
            raise
        return custom

    async def _clean_up(self, name: TopicIdPartition) -> None:
        """Remove what was begun by somebody who will not finish it: an earlier leader, or an earlier run of this one.

        All that is in the log is read before: what looks unfinished may have been finished a moment ago.
        """
        key = name.topic_id, name.partition
        if dangling(self._catalog.partition(key), self._in_flight):
            await self._catalog.catch_up(key)
            for segment in dangling(self._catalog.partition(key), self._in_flight):
                logger.info("%s-%d: the copy %s was never finished: removed", name.topic, name.partition, segment.id)
                await self._give_up(name, segment)

    async def _give_up(self, name: TopicIdPartition, segment: RemoteSegment) -> None:
        """Remove a segment that nobody can have read."""
        self._logs.condemned.add(segment.id)
        try:
            await self._move(name, segment, SegmentState.DELETE_SEGMENT_STARTED)
            await self._remove(name, segment)
        finally:
            self._logs.condemned.discard(segment.id)

    async def _move(
        self, name: TopicIdPartition, segment: RemoteSegment, state: SegmentState, custom: bytes | None = None
    ) -> None:
        now_ms = self._clock.now_ms()
        await self._catalog.write(
            name,
            lambda catalogue: catalogue.update(
                name, segment.id, state, broker_id=self._node_id, now_ms=now_ms, custom_metadata=custom
            ),
        )

    # -- letting go

    async def _expire(self, key: Key) -> None:
        """Announce what has to go, and remove what was announced long enough ago."""
        held = self._catalog.partition(key)
        partition = self._replicas.held(*key)
        if key[0] not in self._replicas.image.topics.by_id:
            await self._delete_partition(held.name)
        elif partition is None or not partition.leads:
            return
        elif partition.tier is not None:
            name = TopicIdPartition(*key, partition.topic_partition.topic)
            await self._announce(name, self._expired(partition, held))
            await self._remove_announced(name)
        else:  # it keeps nothing remote any more: its log begins on this disk
            name = TopicIdPartition(*key, partition.topic_partition.topic)
            await self._announce(name, all_segments(held, "the topic is not tiered any more"))
            await self._remove_announced(name)

    def _expired(self, partition: Partition, held: PartitionSegments) -> list[Expired]:
        tier = partition.tier
        end = tier.end_offset if tier is not None else None
        if end is None:
            return []
        log = LogSpan(
            partition.lineage, partition.log_start_offset, partition.log_end_offset, partition.local_bytes_from(end)
        )
        found = expired(held, log, Retention(*partition.retention), self._clock.now_ms())
        start = max(found.log_start_offset, first_readable(held, log, partition.local_log_start_offset))
        if start > partition.log_start_offset:
            partition.expire_before(start)  # first: nobody is to be sent to what goes
        return [one for one in found.segments if one.segment.id not in self._in_flight]

    async def _announce(self, name: TopicIdPartition, going: list[Expired]) -> None:
        for segment, reason in going:
            logger.info("%s-%d: remote segment %s goes: %s", name.topic, name.partition, segment.id, reason)
            await self._move(name, segment, SegmentState.DELETE_SEGMENT_STARTED)

    async def _remove_announced(self, name: TopicIdPartition) -> None:
        before_ms = self._clock.now_ms() - self._settings[KAVKA_REMOTE_DELETE_DELAY_MS]
        failure: KafkaError | StoreError | None = None
        for segment in to_remove(self._catalog.partition((name.topic_id, name.partition)), before_ms):
            try:
                await self._remove(name, segment)
            except (KafkaError, StoreError) as error:  # one that cannot be removed does not keep the others
                failure = error
        if failure is not None:
            raise failure

    async def _remove(self, name: TopicIdPartition, segment: RemoteSegment) -> None:
        """Remove the objects of a segment whose deletion was announced; twice is as good as once."""
        try:
            await self._store.delete(SegmentRef.of(name, segment))
            await self._move(name, segment, SegmentState.DELETE_SEGMENT_FINISHED)
        except ResourceNotFound:
            pass  # somebody else has finished it
        except Exception:
            self.counts.failed_deletions += 1
            raise
        self.counts.deleted_segments += 1
        await self._logs.reader.forget(segment.id)

    async def _delete_partition(self, name: TopicIdPartition) -> None:
        """Remove all that a deleted topic had; each step is in the catalogue, so anybody can go on."""
        steps = DeleteState.DELETE_PARTITION_MARKED, DeleteState.DELETE_PARTITION_STARTED
        held = self._catalog.partition((name.topic_id, name.partition))
        for state in steps:
            if held.delete_state is None or held.delete_state < state:
                await self._mark(name, state)
        await self._announce(name, all_segments(held, "its topic was deleted"))
        await self._remove_announced(name)
        if not len(held):
            await self._mark(name, DeleteState.DELETE_PARTITION_FINISHED)
            logger.info("%s-%d: nothing remote is left of the deleted topic", name.topic, name.partition)

    async def _mark(self, name: TopicIdPartition, state: DeleteState) -> None:
        now_ms = self._clock.now_ms()
        await self._catalog.write(
            name, lambda catalogue: catalogue.delete_partition(name, state, broker_id=self._node_id, now_ms=now_ms)
        )

    # -- figures

    @property
    def copy_lag(self) -> tuple[int, int]:
        """How many segments, and bytes of them, of the partitions that this node leads are not copied yet."""
        segments = size = 0
        for partition in self._replicas:
            if partition.leads and partition.tier is not None and not partition.rules.copy_disabled:
                waiting = lag(partition, partition.tier.end_offset or 0)
                segments, size = segments + waiting[0], size + waiting[1]
        return segments, size


class Lane:
    """One kind of work: for which partitions it is wanted and under way, and how much of it at the same time."""

    def __init__(self, work: Callable[[Key], Awaitable[None]], most: Callable[[], int]) -> None:
        self.work = work
        self.wanted: dict[Key, None] = {}
        self.running: set[Key] = set()
        self._most = most

    def next(self) -> list[Key]:
        """What may begin now, which then counts as under way."""
        chosen: list[Key] = []
        for key in self.wanted:
            if len(self.running) + len(chosen) >= self._most():
                break
            if key not in self.running:
                chosen.append(key)
        for key in chosen:
            del self.wanted[key]
        self.running.update(chosen)
        return chosen
