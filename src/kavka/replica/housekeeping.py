"""What a node does to its logs by itself: retention, forcing to disk, checkpoints, removing what was deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import islice
from typing import TypeVar

from kavka.model.clock import Clock
from kavka.model.errors import KafkaStorageError
from kavka.model.settings import (
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_RETENTION_CHECK_INTERVAL_MS,
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS,
    REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS,
    Setting,
)
from kavka.pacing.turn import Turn
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.syncing import Syncer
from kavka.storage import files

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[], Awaitable[object]]

NEVER_MS = 2**63 - 1
TICK_SECONDS = 1.0
AT_A_TIME = 64


class Housekeeping:
    """The periodic work on the logs of a node."""

    def __init__(self, replicas: ReplicaManager, syncer: Syncer, clock: Clock) -> None:
        self._replicas = replicas
        self._syncer = syncer
        self._clock = clock
        self._unforced_ms: dict[Partition, int] = {}  # since when logs with flush.ms have something to force

    async def run(self) -> None:
        """Work until cancelled."""
        every = self._every
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(every(LOG_RETENTION_CHECK_INTERVAL_MS, self.retain))
            tasks.create_task(every(PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS, self.expire_producers))
            tasks.create_task(every(LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS, self._write(files.RECOVERY_POINTS)))
            tasks.create_task(every(LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS, self._write(files.LOG_STARTS)))
            tasks.create_task(every(REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS, self._write(files.HIGH_WATERMARKS)))
            tasks.create_task(self._tick())

    async def _every(self, setting: Setting[int], work: Work) -> None:
        while True:
            await asyncio.sleep(self._replicas.values[setting] / 1000)
            await attempt(work)

    def _write(self, kind: str) -> Work:
        return lambda: self._replicas.checkpoints.write(kind)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await attempt(self.check_dirs)
            await attempt(self.flush)
            await attempt(self.remove_deleted)

    async def _slices(self, at_a_time: int) -> AsyncIterator[list[Partition]]:
        """Every partition whose log is sound, some at a time, giving the loop its turn between slices."""
        turn = Turn()
        sound = (partition for partition in self._replicas if partition.failed is None)
        while partitions := list(islice(sound, at_a_time)):
            yield partitions
            await turn.breathe()

    async def retain(self) -> None:
        """Delete the segments that retention expires, and the files of those whose delete delay is over."""
        async for (partition,) in self._slices(1):
            if paths := self._retain(partition, self._clock.now_ms()):
                await self._away(self._unlink, paths)

    def _retain(self, partition: Partition, now_ms: int) -> list[str]:
        try:
            for expired in partition.delete_old_segments(now_ms):
                logger.info("%s: %s", partition.topic_partition, expired)
        except KafkaStorageError as error:
            logger.error("%s", error)
        return partition.log.take_deletable(now_ms)

    async def expire_producers(self) -> None:
        """Expire producer ids that wrote nothing for too long."""
        async for partitions in self._slices(AT_A_TIME):
            for partition in partitions:
                partition.log.remove_expired_producers(self._clock.now_ms())

    async def check_dirs(self) -> None:
        """Give up directories whose disk has refused something."""
        self._replicas.check_dirs()

    async def flush(self) -> None:
        """Force to disk what has been rolled, and logs whose flush.ms has passed."""
        now_ms = self._clock.monotonic_ms()
        due = []
        unforced: dict[Partition, int] = {}
        async for partitions in self._slices(AT_A_TIME):
            for partition in partitions:
                log = partition.log
                if log.recovery_point >= log.log_end_offset:
                    continue
                since_ms = self._unforced_ms.get(partition, now_ms)
                if log.recovery_point < log.segments[-1].base_offset or now_ms - since_ms >= log.config.flush_ms:
                    due.append(log)
                elif log.config.flush_ms != NEVER_MS:
                    unforced[partition] = since_ms
        self._unforced_ms = unforced
        if due:
            self._syncer.sync(due)

    async def remove_deleted(self) -> None:
        """Remove the files of deleted logs whose delay is over, and what earlier runs have left behind."""
        while (path := self._replicas.removals.next(self._clock.now_ms())) is not None:
            await self._away(self._replicas.disk.remove_tree, path)

    async def _away(self, remove: Callable[[T], None], what: T) -> None:
        """Run it in a thread: freeing the blocks of a large file takes long."""
        try:
            await asyncio.get_running_loop().run_in_executor(None, remove, what)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.error("deleting files failed: %s", error)

    def _unlink(self, paths: list[str]) -> None:
        for path in paths:
            self._replicas.disk.unlink(path)


async def attempt(work: Work) -> None:
    """Do a piece of work; if it fails, there is a next time, and the node goes on."""
    try:
        await work()
    except Exception:
        logger.exception("retention and flush task failed, retrying")
