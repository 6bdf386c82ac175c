"""Log compaction as a service: the dirtiest compacted log first, each in a process of its own."""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from contextlib import suppress

from kavka.model.clock import Clock
from kavka.model.errors import KafkaStorageError
from kavka.model.settings import (
    LOG_CLEANER_BACKOFF_MS,
    LOG_CLEANER_DEDUPE_BUFFER_SIZE,
    LOG_CLEANER_ENABLE,
    LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    LOG_CLEANER_THREADS,
)
from kavka.model.settings.values import Values
from kavka.pacing.turn import Turn
from kavka.replica.dirs import LogDir
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets, write_offsets
from kavka.storage.cleaning import Cleanable, assess, give_up, make_plan, take_in
from kavka.storage.compaction import CompactionPlan, CompactionResult
from kavka.storage.compaction_worker import decode_result, encode_plan
from kavka.storage.disk import Disk
from kavka.storage.log import Log

logger = logging.getLogger(__name__)


class CompactionFailedError(Exception):
    """The worker did not finish; the message is its last line."""


class Cleaner:
    """Keeps the compacted logs of a node compacted."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        compact: Callable[[Disk, CompactionPlan], Awaitable[CompactionResult]] | None = None,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._compact = compact
        self._clean: dict[Partition, int] = {}
        self._failed: set[Partition] = set()
        self._cleaning: set[Partition] = set()
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self.passes = 0

    def load(self) -> None:
        """Read up to where each log was clean."""
        for directory in self._replicas.dirs:
            try:
                offsets = read_offsets(self._replicas.disk, self._path(directory))
            except (KafkaStorageError, OSError) as error:
                logger.warning("%s; cleaner offset checkpoint ignored", error)
                continue
            for tp, offset in offsets.items():
                partition = self._replicas.held(*tp)
                if partition is not None:
                    self._clean[partition] = offset

    async def run(self) -> None:
        """Compact until cancelled, as many logs at a time as `log.cleaner.threads` says."""
        threads: dict[int, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                changed = self._changed
                for number in range(self._threads):
                    if number not in threads or threads[number].done():
                        threads[number] = tasks.create_task(self._work(number))
                await changed.wait()

    def follow(self, values: Values) -> None:
        """Changed settings count at once, also for those that rest."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def busy(self) -> bool:
        """Whether a log is being compacted."""
        return bool(self._cleaning)

    @property
    def _threads(self) -> int:
        return self._replicas.values[LOG_CLEANER_THREADS]

    async def _work(self, number: int) -> None:
        while number < self._threads:
            found, changed = False, self._changed
            if self._replicas.values[LOG_CLEANER_ENABLE]:
                try:
                    found = await self.clean_dirtiest()
                except Exception:
                    logger.exception("log cleaner failed, retrying")
            if not found:
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), self._replicas.values[LOG_CLEANER_BACKOFF_MS] / 1000)

    async def clean_dirtiest(self) -> bool:
        """Compact the log that needs it most; whether there was one."""
        self._forget_deleted()
        due: list[tuple[Cleanable, Partition]] = []
        turn = Turn()
        for partition in self._replicas:
            found = None if partition in self._cleaning else self._assess(partition)
            if found is not None and found.due:
                due.append((found, partition))
            await turn.breathe()
        due = [(found, partition) for found, partition in due if partition not in self._cleaning]
        if not due:
            return False
        cleanable, partition = max(due, key=lambda pair: (pair[0].overdue, pair[0].ratio))
        self._cleaning.add(partition)
        try:
            await self._clean_one(cleanable, partition)
        finally:
            self._cleaning.remove(partition)
        return True

    def _forget_deleted(self) -> None:
        """What is known of a log goes with it: another of its name starts over."""
        for partition in {*self._clean, *self._failed}:
            if self._replicas.held(*partition.topic_partition) is not partition:
                self._clean.pop(partition, None)
                self._failed.discard(partition)

    def _assess(self, partition: Partition) -> Cleanable | None:
        log = partition.log
        if self._replicas.futures.of(partition.topic_partition) is not None:
            self._clean.pop(partition, None)  # the log that it goes on with has other segments
            return None
        if not log.config.compact or log.failed is not None or partition in self._failed:
            return None
        try:
            return assess(log, self._clean.get(partition), partition.high_watermark, self._clock.now_ms())
        except (KafkaStorageError, OSError) as error:
            self._leave(partition, error)
            return None

    def _leave(self, partition: Partition, error: Exception) -> None:
        """As Kafka does: a log that cannot be compacted is left alone until the node restarts."""
        self._failed.add(partition)
        if self._replicas.held(*partition.topic_partition) is partition:
            logger.error("%s is uncleanable: %s", partition.topic_partition, error)

    async def _clean_one(self, cleanable: Cleanable, partition: Partition) -> None:
        log = partition.log
        plan: CompactionPlan | None = None
        try:
            share = max(self._threads, 1)
            plan = make_plan(
                cleanable,
                self._clock.now_ms(),
                self._replicas.values[LOG_CLEANER_DEDUPE_BUFFER_SIZE] // share,
                self._replicas.values[LOG_CLEANER_IO_MAX_BYTES_PER_SECOND] / share,
            )
            result = await (self._compact or run_worker)(self._replicas.disk, plan)
            if partition.log is not log or self._replicas.futures.of(partition.topic_partition) is not None:
                discard(log, plan)
                return
            clean_offset = take_in(log, plan, result, self._clock.now_ms())
        except (CompactionFailedError, KafkaStorageError, OSError) as error:
            self._leave(partition, error)
            discard(log, plan)
            return
        except asyncio.CancelledError:
            discard(log, plan)
            raise
        self.passes += 1
        logger.info(
            "%s: log cleaner kept %d of %d records", partition.topic_partition, result.records_kept, result.records_read
        )
        if result.unread:
            name = partition.topic_partition
            logger.warning("%s: log cleaner kept %d corrupt batches as they are", name, result.unread)
        if clean_offset is not None:
            self._clean[partition] = clean_offset
            await self._checkpoint(partition)

    async def _checkpoint(self, partition: Partition) -> None:
        async with self._writing:  # a file is replaced by way of another, which has one name
            await self._write_checkpoint(partition)

    async def _write_checkpoint(self, partition: Partition) -> None:
        if self._replicas.held(*partition.topic_partition) is not partition:
            return
        directory = self._replicas.directory_of(partition)
        held = self._replicas.partitions_in(directory)
        offsets = {partition.topic_partition: self._clean[partition] for partition in held if partition in self._clean}
        try:
            await asyncio.get_running_loop().run_in_executor(
                None, write_offsets, self._replicas.disk, self._path(directory), offsets
            )
        except OSError as error:
            logger.error("cannot write the checkpoint %s: %s", self._path(directory), error)

    @staticmethod
    def _path(directory: LogDir) -> str:
        return f"{directory.path}/{files.CLEANER_OFFSETS}"


def discard(log: Log, plan: CompactionPlan | None) -> None:
    """Remove what a worker may have written; what cannot be removed goes at the next start."""
    try:
        if plan is not None:
            give_up(log, plan)
    except OSError as error:
        logger.warning("%s: %s", log.topic_partition, error)


async def run_worker(disk: Disk, plan: CompactionPlan) -> CompactionResult:
    """Run a plan in a process of its own, which opens the files itself; cancelling kills the process."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kavka.storage.compaction_worker", stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stderr is not None
    try:
        # Its input stays open while it works: should this node end, however abruptly, the worker ends too.
        worker.stdin.write(encode_plan(plan) + b"\n")
        out, err = await asyncio.gather(worker.stdout.read(), worker.stderr.read())
        await worker.wait()
    finally:
        worker.stdin.close()
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    if worker.returncode:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        raise CompactionFailedError(lines[-1] if lines else f"the worker ended with status {worker.returncode}")
    try:
        return decode_result(out)
    except (ValueError, TypeError, KeyError) as error:
        raise CompactionFailedError(f"the worker's answer cannot be read: {error!r}") from error
