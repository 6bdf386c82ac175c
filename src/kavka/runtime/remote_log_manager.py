"""What a leader does for its tiered partitions: copies segments, lets old ones expire, removes what was given up.

Each step is decided from the catalogue and the log as they are, and said in the catalogue before it is done: whoever
leads after a crash goes on where it stopped. A partition whose store fails is tried again with the next look; the
others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final, Protocol

from kavka.catalog.expiry import (
    Copiers,
    ExpiredRemoteSegment,
    LogSpan,
    Retention,
    all_segments,
    expired,
    first_readable,
    leftovers,
    own_leftovers,
    to_remove,
)
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import DeleteState, RemoteSegment, SegmentState, TopicIdPartition
from kavka.client.deadline import within
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage, ResourceType
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import REMOTE_LOG_METADATA
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
from kavka.runtime.remote_logs import Budget, HeldPartitions, RemoteLogs
from kavka.tiered.objects.base import StoreError
from kavka.tiered.objects.layout import SegmentRef
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.segments import Readable

logger = logging.getLogger(__name__)

THROTTLED_SECONDS: Final = 0.2
UNREADY_SECONDS: Final = 0.5
"""How soon it is looked again while the catalogue is not read to its end."""
COPY_SECONDS: Final = 1800.0
"""How long a copy may take before whoever makes it gives it up."""
ABANDONED_MS: Final = 2 * 1000 * int(COPY_SECONDS)
"""How long after its start a copy of a broker that is in service is taken for one that nobody makes any more: clocks of
brokers differ."""
MISSING_INTERVALS: Final = 3
"""For how many intervals between looks a topic has to be missing in the metadata before what it had is given up,
unless it was seen being deleted: this node's metadata may be behind that of whoever wrote of the topic."""


class Partitions(HeldPartitions, Protocol):
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

    async def custom_of(self, name: TopicIdPartition, segment: RemoteSegment) -> bytes | None:
        """What the catalogue is to remember of a segment that is stored as a whole; None if it is not."""

    async def delete(self, ref: SegmentRef) -> None:
        """Remove all that is stored of a segment."""


class RemoteLogCounts:
    """What was done since the start."""

    def __init__(self) -> None:
        self.copied_segments = 0
        self.copied_bytes = 0
        self.failed_copies = 0
        self.held_back = 0
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
        unheard: Callable[[], bool],
    ) -> None:
        """`unheard` tells whether the controller has been silent for so long that the metadata may be old."""
        self._node_id = node_id
        self._replicas = replicas
        self._logs = logs
        self._catalog = logs.catalog
        self._store = store
        self._settings = settings
        self._clock = clock
        self._budget = budget
        self._new_id = new_id
        self._unheard = unheard
        self._tasks: asyncio.TaskGroup | None = None
        self._work = {
            "copy": TaskQueue(self._copy, lambda: settings[REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE]),
            "expire": TaskQueue(self._expire, lambda: settings[REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE]),
            "end own": TaskQueue(self._end_own, lambda: settings[REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE]),
        }
        self._in_flight: set[Uuid] = set()
        self._missing_since_ms: dict[Key, int] = {}
        self._deleted: set[Uuid] = set()
        self._woken = asyncio.Event()
        self._changed: set[Key] = set()
        self.counts = RemoteLogCounts()

    # -- following the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Look again at the partitions that a committed change of the metadata concerns."""
        for topic in delta.deleted_topics.values():
            self._deleted.add(topic.id)
            for index in topic.partitions:
                self._logs.forget((topic.id, index))
        self._changed.update((topic.id, index) for topic in delta.created_topics.values() for index in topic.partitions)
        self._changed.update((id, index) for id, indexes in delta.changed_partitions.items() for index in indexes)
        configured = {resource.name for resource in delta.configs if resource.type == ResourceType.TOPIC}
        for topic in (image.topics.by_name[name] for name in configured if name in image.topics.by_name):
            self._changed.update((topic.id, index) for index in topic.partitions)
        if delta.deleted_topics or self._changed:
            self._woken.set()

    async def run(self) -> None:
        """Tend until cancelled: all partitions in intervals, those that have changed at once."""
        loop = asyncio.get_running_loop()
        next_full = loop.time()
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._woken.clear()
                changed, self._changed = self._changed, set()
                due = loop.time() >= next_full
                self._look(None if due else changed)
                if due:
                    seconds = self._settings[REMOTE_LOG_MANAGER_TASK_INTERVAL_MS] / 1000
                    next_full = loop.time() + (min(seconds, UNREADY_SECONDS) if self._catalog.unready else seconds)
                try:
                    async with within(max(0.0, next_full - loop.time())):
                        await self._woken.wait()
                except TimeoutError:
                    pass

    def _look(self, only: Collection[Key] | None) -> None:
        """Begin what is to be done, of all partitions or of some, one piece of work of each kind at a time for each."""
        partitions, led_metadata_partitions = set[Key](), set[int]()
        for partition in self._replicas:
            if partition.topic_partition.topic == REMOTE_LOG_METADATA:
                if partition.leads:
                    led_metadata_partitions.add(partition.topic_partition.partition)
            elif partition.tier is not None or partition.rules.deletes_tier:
                key = partition.topic_id, partition.topic_partition.partition
                partitions.add(key)
                if partition.leads and (only is None or key in only) and self._catalog.is_ready(key):
                    if partition.tier is not None and not partition.rules.copy_disabled:
                        self._work["copy"].wanted[key] = None
                    self._work["expire"].wanted[key] = None
        self._catalog.require(partitions | self._work["copy"].running, led_metadata_partitions)
        self._look_for_deleted(led_metadata_partitions)
        self._look_for_own()
        self._start()

    def _look_for_deleted(self, led_metadata_partitions: set[int]) -> None:
        """Whoever leads what remembers a partition finishes its deletion: the topic itself has no leader any more.

        A node that hears nothing of the controller would take every topic that is newer than its metadata for deleted.
        """
        if self._unheard():
            self._missing_since_ms = {}
            return
        catalogue, topics = self._catalog.live, self._replicas.image.topics.by_id
        now_ms = self._clock.monotonic_ms()
        before_ms = now_ms - MISSING_INTERVALS * self._settings[REMOTE_LOG_MANAGER_TASK_INTERVAL_MS]
        missing: dict[Key, int] = {}
        for key, held in catalogue.partitions.items() if catalogue is not None else ():
            topic_id, _ = key
            if (
                topic_id not in topics
                and held.metadata_partition in led_metadata_partitions
                and self._catalog.is_ready(key)
            ):
                missing[key] = since_ms = self._missing_since_ms.get(key, now_ms)
                if since_ms <= before_ms or topic_id in self._deleted or held.delete_state is not None:
                    self._work["expire"].wanted[key] = None
        self._missing_since_ms = missing
        self._deleted &= {topic_id for topic_id, _ in missing}

    def _look_for_own(self) -> None:
        """Whoever has begun a copy ends it, leader or not: others leave it alone for as long as this node serves."""
        live, copiers = self._catalog.live, self._copiers()
        for key, held in live.partitions.items() if live is not None else ():
            if self._catalog.is_ready(key) and own_leftovers(held, copiers):
                self._work["end own"].wanted[key] = None

    def _copiers(self) -> Copiers:
        brokers = self._replicas.image.cluster.brokers
        in_service = {node_id for node_id, broker in brokers.items() if not broker.fenced}
        return Copiers(self._node_id, self._in_flight, in_service, self._clock.now_ms() - ABANDONED_MS)

    def _start(self) -> None:
        if self._tasks is None:
            return
        for lane in self._work.values():
            for key in lane.next():
                self._tasks.create_task(self._tend(lane, key))

    async def _tend(self, lane: TaskQueue, key: Key) -> None:
        try:
            await lane.work(key)
        except (KafkaError, StoreError) as error:
            logger.warning("%s: %s; it is tried again", self._name(key), error)
        except Exception:
            logger.exception("%s: remote log task failed, retrying", self._name(key))
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
        while partition.leads and partition.leader_epoch == epoch and partition.tier is not None:
            done = partition.tier.end_offset
            sealed = next_sealed(partition, done) if done is not None and not partition.rules.copy_disabled else None
            if sealed is None or not sealed.epochs:
                return
            if self._budget.exceeded(self._clock.monotonic_ms()):
                self.counts.held_back += 1
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
            await self._finish(name, segment, custom)
        finally:
            files.release()
            self._in_flight.discard(segment.id)
        self.counts.copied_segments += 1
        self.counts.copied_bytes += sealed.size_bytes
        offsets = sealed.start_offset, sealed.end_offset
        logger.info("%s: copied offsets %d to %d to remote segment %s", partition.topic_partition, *offsets, segment.id)

    async def _stored(self, name: TopicIdPartition, segment: RemoteSegment, files: Offload) -> bytes:
        """Store a segment; if that fails, nothing of it is left, or the catalogue knows that it is to go."""
        most = self._settings[REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES]
        try:
            async with within(COPY_SECONDS):
                custom = await self._store.put(name, segment, files.parts)
            if len(custom) > most:
                raise InvalidRequest(f"{len(custom)} bytes of custom metadata: at most {most} are allowed")
        except Exception:
            self.counts.failed_copies += 1
            await self._give_up(name, segment)
            raise
        return custom

    async def _finish(self, name: TopicIdPartition, segment: RemoteSegment, custom: bytes) -> None:
        """Say that a segment is stored; if it was given up meanwhile, what is stored of it goes."""
        with suppress(InvalidRequest, ResourceNotFound):  # it is looked below what has become of it
            await self._move(name, segment, SegmentState.COPY_SEGMENT_FINISHED, custom)
        found = self._catalog.partition((name.topic_id, name.partition)).get(segment.id)
        if found is None or found.state is SegmentState.DELETE_SEGMENT_STARTED:
            await self._store.delete(SegmentRef.of(name, segment))
            raise ResourceNotFound(f"remote segment {segment.id} was deleted while it was copied")

    async def _clean_up(
        self, name: TopicIdPartition, find: Callable[[PartitionSegments, Copiers], list[RemoteSegment]]
    ) -> None:
        """End what was begun by somebody who will not finish it: an earlier leader, or an earlier run of this one.

        All that is in the log is read before: what looks unfinished may have been finished a moment ago. What is whole
        in the store, and nowhere else in it, is finished: the log may have lost that it was (an unclean election), and
        no disk may have it.
        """
        key = name.topic_id, name.partition
        if find(self._catalog.partition(key), self._copiers()):
            await self._catalog.catch_up(key)
            for segment in find(self._catalog.partition(key), self._copiers()):
                custom = await self._store.custom_of(name, segment)
                if custom is not None and not self._catalog.partition(key).has(segment):
                    await self._finish(name, segment, custom)
                    logger.info("%s-%d: remote segment %s was whole: finished", name.topic, name.partition, segment.id)
                elif await self._give_up(name, segment):
                    logger.info("%s-%d: deleted unfinished remote segment %s", name.topic, name.partition, segment.id)

    async def _end_own(self, key: Key) -> None:
        """End what this node has begun to copy and does not copy any more, whoever leads by now."""
        await self._clean_up(self._catalog.partition(key).name, own_leftovers)

    async def _give_up(self, name: TopicIdPartition, segment: RemoteSegment) -> bool:
        """Remove what is stored of a segment that nobody can have read; whether it was not finished meanwhile.

        Its deletion ends later (`_remove_announced`), and its objects are removed again then: an upload that was given
        up may still arrive.
        """
        if self._is_finished(name, segment):
            return False
        self._logs.condemned.add(segment.id)
        try:
            with suppress(ResourceNotFound):  # the next leader has given it up, before all of this was stored
                await self._move(name, segment, SegmentState.DELETE_SEGMENT_STARTED)
            if self._is_finished(name, segment):
                return False
            await self._store.delete(SegmentRef.of(name, segment))
            return True
        finally:
            self._logs.condemned.discard(segment.id)

    def _is_finished(self, name: TopicIdPartition, segment: RemoteSegment) -> bool:
        found = self._catalog.partition((name.topic_id, name.partition)).get(segment.id)
        return found is not None and found.state is SegmentState.COPY_SEGMENT_FINISHED

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
        """Announce the segments to be deleted, and delete those announced long enough ago."""
        held = self._catalog.partition(key)
        partition = self._replicas.held(*key)
        if key[0] not in self._replicas.image.topics.by_id:
            await self._delete_partition(held.name)
        elif partition is None or not partition.leads:
            return
        elif partition.tier is not None:
            name = TopicIdPartition(*key, partition.topic_partition.topic)
            await self._clean_up(name, leftovers)
            await self._announce(name, self._expired(partition, held))
            await self._remove_announced(name)
        else:  # it keeps nothing remote any more: its log begins on this disk
            name = TopicIdPartition(*key, partition.topic_partition.topic)
            await self._announce(name, all_segments(held, "the topic is not tiered any more"))
            await self._remove_announced(name)

    def _expired(self, partition: Partition, held: PartitionSegments) -> list[ExpiredRemoteSegment]:
        lineage, end = self._logs.lineage_of(partition), partition.log_end_offset
        # Not from where the copies end that are there: what expired remotely may still be on this disk.
        copied, _ = held.copied_up_to(lineage, end)
        log = LogSpan(lineage, partition.log_start_offset, end, partition.local_bytes_from(copied + 1))
        found = expired(held, log, Retention(*partition.retention), self._clock.now_ms())
        start = max(found.log_start_offset, first_readable(held, log, partition.local_log_start_offset))
        if start > partition.log_start_offset:
            partition.expire_before(start)  # first: nobody is to be sent to what goes
        return [candidate for candidate in found.segments if candidate.segment.id not in self._in_flight]

    async def _announce(self, name: TopicIdPartition, going: list[ExpiredRemoteSegment]) -> None:
        for segment, reason in going:
            logger.info("%s-%d: deleting remote segment %s: %s", name.topic, name.partition, segment.id, reason)
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
            logger.info("%s-%d: all remote segments of the deleted topic are deleted", name.topic, name.partition)

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
                lag_segments, lag_bytes = lag(partition, partition.tier.end_offset or 0)
                segments, size = segments + lag_segments, size + lag_bytes
        return segments, size


class TaskQueue:
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
