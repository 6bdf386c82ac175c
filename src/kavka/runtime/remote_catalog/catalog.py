"""The catalogue of remote segments on a node: which parts of it are followed, what is known, what is written.

Fails closed: before the part that remembers a partition was read to where it ended when that began, every question
about the partition is a retriable error, never an empty answer. What is written is read again before it counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from kavka.catalog.machine import Catalogue, ReplayResult
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.records import encode_event
from kavka.catalog.segment import TopicIdPartition
from kavka.catalog.snapshot import decoding, encoding
from kavka.client.deadline import within
from kavka.model.errors import KafkaError, KafkaStorageError, ReplicaNotAvailable, RequestTimedOut
from kavka.model.transition import Transition
from kavka.model.types import Uuid
from kavka.pacing.turn import Turn, paced
from kavka.runtime.remote_catalog.event_log import EventLog, Events, Opened

logger = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[Uuid, int]

RECONCILE_SECONDS: Final = 30.0
"""How often it is looked whether what is followed is what is needed, and what failed is tried again."""
AGAIN_SECONDS: Final = 0.5
SAVE_SECONDS: Final = 60.0


class SnapshotFile(Protocol):
    """Where a node keeps what it read, so that it need not read it again."""

    async def read(self, log: Uuid) -> bytes | None:
        """What was kept of a log; None if nothing was."""

    async def write(self, log: Uuid, data: bytes) -> None:
        """Keep it, all at once, instead of what was kept; raises OSError."""


class RemoteCatalog:
    """The catalogue while `run` runs; before and after that it knows nothing, and says so."""

    def __init__(self, log: EventLog, snapshots: SnapshotFile, *, wait_ms: int) -> None:
        """`wait_ms` is how long a write waits until it is read again."""
        self._log = log
        self._snapshots = snapshots
        self._wait_ms = wait_ms
        self._catalogue: Catalogue | None = None
        self._opened: Opened | None = None
        self._partitions: frozenset[Key] = frozenset()
        self._metadata_partitions: frozenset[int] = frozenset()
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._waiting: defaultdict[int, list[tuple[int, asyncio.Future[None]]]] = defaultdict(list)
        self._times_followed: Counter[int] = Counter()
        self._saved: dict[int, int] = {}
        self.published = 0
        self.waits_timed_out = 0
        self.attempts = 0
        """How often it was tried to open the log."""
        self.snapshots_written = 0
        self.snapshots_failed = 0

    # -- asking

    @property
    def live(self) -> Catalogue | None:
        """What was read so far; None before anything was."""
        return self._catalogue

    @property
    def unready(self) -> int:
        """How many of the parts that are needed were not read to their end yet."""
        needed = self._needed()
        if self._catalogue is None:
            return max(len(needed), len(self._partitions) > 0)
        return sum(not self._catalogue.following.is_ready(metadata_partition) for metadata_partition in needed)

    def is_ready(self, key: Key) -> bool:
        """Whether it can be said what there is of a partition."""
        return self._catalogue is not None and self._catalogue.is_ready(*key)

    def partition(self, key: Key) -> PartitionSegments:
        """The remote segments of a partition; ReplicaNotAvailable before they are known."""
        return self._ready().partition(*key)

    def _ready(self) -> Catalogue:
        if self._catalogue is None:
            raise ReplicaNotAvailable("the remote log metadata has not been opened yet")
        return self._catalogue

    # -- following

    def require(self, partitions: Iterable[Key], metadata_partitions: Iterable[int] = ()) -> None:
        """Follow what remembers these partitions, these parts, and nothing else."""
        wanted = frozenset(partitions), frozenset(metadata_partitions)
        if wanted != (self._partitions, self._metadata_partitions):
            self._partitions, self._metadata_partitions = wanted
            self._changed.set()
        if self._partitions or self._metadata_partitions:
            self._wanted.set()

    def _needed(self) -> set[int]:
        if self._catalogue is None:
            return set()
        known = {
            metadata_partition
            for metadata_partition in self._metadata_partitions
            if metadata_partition < self._catalogue.partition_count
        }
        return known | {self._catalogue.metadata_partition_of(*key) for key in self._partitions}

    async def run(self) -> None:
        """Follow until cancelled; the log is opened when something is needed of it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._log.run())
                await self._wanted.wait()
                await self._open()
                tasks.create_task(self._read())
                tasks.create_task(self._save_now_and_then())
                await self._reconcile_for_ever()
        finally:
            if self._catalogue is not None:
                await self._save()
            self._catalogue = None
            self._give_up("the node is stopping")

    async def _open(self) -> None:
        failures = 0
        while True:
            self.attempts += 1
            try:
                opened = await self._log.open()
                break
            except KafkaError as error:
                failures += 1
                if failures == 1:
                    logger.warning("initializing the remote log metadata failed, retrying: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
        self._opened = opened
        self._catalogue = await self._load(opened)

    async def _load(self, opened: Opened) -> Catalogue:
        """What an earlier run has kept, if that is sound and of this log."""
        try:
            data = await self._snapshots.read(opened.id)
            if data is not None:
                found = await paced(decoding(data))
                if found.partition_count == opened.partitions:
                    return found
        except (KafkaStorageError, OSError) as error:
            logger.warning("remote log metadata snapshot ignored: %s", error)
        return Catalogue(opened.partitions)

    async def _reconcile_for_ever(self) -> None:
        while True:
            self._changed.clear()
            if self._log.opened() != self._opened:
                await self._begin_anew()
            settled = await self._reconcile()
            try:
                async with within(RECONCILE_SECONDS if settled else AGAIN_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _begin_anew(self) -> None:
        """The log is gone, was made anew, or has other partitions: nothing that was read counts any more."""
        logger.warning("__remote_log_metadata was deleted or recreated: reading it from the beginning")
        catalogue = self._ready()
        for metadata_partition in catalogue.following.followed:
            self._log.unfollow(metadata_partition)
        self._catalogue = None
        self._give_up("the remote log metadata was made anew")
        await self._open()

    async def _reconcile(self) -> bool:
        """Follow what is needed; whether nothing is left to be tried again."""
        catalogue, needed = self._ready(), self._needed()
        for metadata_partition in set(catalogue.following.followed) - needed:
            self._log.unfollow(metadata_partition)
            catalogue.forget(metadata_partition)
        unknown = [one for one in sorted(needed) if not catalogue.following.is_target_known(one)]
        async with asyncio.TaskGroup() as tasks:  # one without a leader does not keep the others
            begun = [tasks.create_task(self._follow(catalogue, one)) for one in unknown]
        return all(task.result() for task in begun)

    async def _follow(self, catalogue: Catalogue, metadata_partition: int) -> bool:
        following = catalogue.following
        try:
            start, end = await self._log.bounds(metadata_partition)
        except KafkaError as error:
            logger.info("__remote_log_metadata-%d: end offset not known yet: %s", metadata_partition, error)
            return False
        if self._catalogue is not catalogue or metadata_partition not in self._needed():
            return True
        if following.next_offsets.get(metadata_partition, 0) > end:  # what was kept is not of this log
            logger.warning("__remote_log_metadata-%d ends before the offset of our snapshot", metadata_partition)
            catalogue.forget(metadata_partition)
        if following.follow(metadata_partition) < start:
            following.next_offsets[metadata_partition] = start
            following.epochs.pop(metadata_partition, None)
        following.set_target(metadata_partition, end)
        self._times_followed[metadata_partition] += 1
        self._log.follow(metadata_partition, *following.place(metadata_partition))
        return True

    async def _read(self) -> None:
        while True:
            events = await self._log.take()
            if events.truncated:
                self._read_anew(events.partition)
                continue
            turn, times = Turn(), self._times_followed[events.partition]
            self._began(events)
            for offset, value in events.values:
                self._take_in(events.partition, offset, value)
                await turn.breathe()
                if self._times_followed[events.partition] != times:
                    break  # it is read from another offset by now
            else:
                self._took(events)

    def _read_anew(self, metadata_partition: int) -> None:
        """A part of the log lost its end (an unclean election): what was read of it counts no more."""
        catalogue = self._catalogue
        if catalogue is None or not catalogue.following.is_followed(metadata_partition):
            return
        logger.warning("__remote_log_metadata-%d was truncated: reading it from the beginning", metadata_partition)
        catalogue.forget(metadata_partition)
        for _, done in self._waiting.pop(metadata_partition, ()):
            if not done.done():
                done.set_exception(ReplicaNotAvailable("the remote log metadata was truncated"))
        self._changed.set()

    def _began(self, events: Events) -> None:
        """Note the epoch first: an offset that is kept with a later one than its own costs a look, not events."""
        if self._catalogue is not None and self._catalogue.following.is_followed(events.partition):
            self._catalogue.following.epochs[events.partition] = events.leader_epoch

    def _take_in(self, metadata_partition: int, offset: int, value: bytes | None) -> None:
        catalogue = self._catalogue
        if catalogue is None or not catalogue.following.is_followed(metadata_partition):
            return
        result = catalogue.replay_value(metadata_partition, offset, value)
        if result in (ReplayResult.UNREADABLE, ReplayResult.IMPOSSIBLE):
            logger.warning("offset %d of __remote_log_metadata-%d is %s", offset, metadata_partition, result.value)
        elif result is ReplayResult.INVALID_TRANSITION and catalogue.following.is_ready(metadata_partition):
            logger.info(
                "offset %d of __remote_log_metadata-%d: invalid state transition, ignored", offset, metadata_partition
            )

    def _took(self, events: Events) -> None:
        catalogue, metadata_partition = self._catalogue, events.partition
        if catalogue is None or not catalogue.following.is_followed(metadata_partition):
            return
        offsets = catalogue.following.next_offsets
        offsets[metadata_partition] = reached = max(offsets.get(metadata_partition, 0), events.next_offset)
        waiting = self._waiting.pop(metadata_partition, [])
        for offset, done in waiting:
            if offset >= reached:
                self._waiting[metadata_partition].append((offset, done))
            elif not done.done():
                done.set_result(None)

    # -- writing

    async def write(self, name: TopicIdPartition, decide: Callable[[Catalogue], Transition[T]]) -> T:
        """Have something decided, written and read again; the machine's reply. Raises KafkaError.

        A RequestTimedOut leaves open whether it was written.
        """
        catalogue = self._ready()
        decided = decide(catalogue)
        metadata_partition = catalogue.metadata_partition_of(name.topic_id, name.partition)
        for record in decided.records:
            offset = await self._log.publish(metadata_partition, encode_event(record))
            self.published += 1
            await self._read_up_to(metadata_partition, offset + 1)
        reply: T = decided.reply  # type: ignore[assignment]
        return reply

    async def catch_up(self, key: Key) -> None:
        """Read all that is in the log now of what remembers a partition; raises KafkaError."""
        metadata_partition = self._ready().metadata_partition_of(*key)
        await self._read_up_to(metadata_partition, (await self._log.bounds(metadata_partition)).end_offset)

    async def _read_up_to(self, metadata_partition: int, end: int) -> None:
        if self._ready().following.next_offsets.get(metadata_partition, 0) >= end:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[metadata_partition].append((end - 1, done))
        try:
            async with within(self._wait_ms / 1000):
                await done
        except TimeoutError:
            self.waits_timed_out += 1
            raise RequestTimedOut(
                f"offset {end - 1} of the remote log metadata was not read within {self._wait_ms} ms"
            ) from None

    def _give_up(self, why: str) -> None:
        waiting, self._waiting = self._waiting, defaultdict(list)
        for waiters in waiting.values():
            for _, done in waiters:
                if not done.done():
                    done.set_exception(ReplicaNotAvailable(why))

    # -- keeping

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            await self._save()

    async def _save(self) -> None:
        """Keep what was read, if it is more than was kept."""
        catalogue, opened = self._catalogue, self._opened
        if catalogue is None or opened is None or catalogue.following.next_offsets == self._saved:
            return
        offsets = dict(catalogue.following.next_offsets)
        try:
            await self._snapshots.write(opened.id, await paced(encoding(catalogue)))
        except OSError as error:
            self.snapshots_failed += 1
            logger.warning("writing the remote log metadata snapshot failed: %s", error)
        else:
            self.snapshots_written += 1
            self._saved = offsets
