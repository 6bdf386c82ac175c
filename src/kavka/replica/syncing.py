"""fsync away from the loop, many logs at a time: callers that come while one runs share the next.

Each log directory has a thread of its own: a slow disk holds up nobody who waits for another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kavka.model.errors import KafkaError, KafkaStorageError
from kavka.replica.partition import Partition
from kavka.storage.log import Log
from kavka.storage.sync import SyncJob

logger = logging.getLogger(__name__)

Failed = Mapping[Log, KafkaError]
"""The logs that could not be forced to disk, and why."""
Done = Callable[[Failed], None]


class Syncer:
    """Forces logs to disk, in one thread for each log directory."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lanes: dict[str, DirectorySyncer] = {}
        self._closed = False

    def sync(self, logs: Iterable[Log], done: Done | None = None) -> None:
        """Force logs to disk and then call back with those of them that could not be."""
        by_directory: dict[str, list[Log]] = {}
        for log in logs:
            by_directory.setdefault(log.path.rpartition("/")[0], []).append(log)
        if done is not None and len(by_directory) != 1:
            done = Together(len(by_directory), done).done
        for directory, wanted in by_directory.items():
            self._lane(directory).sync(wanted, done)

    def force(self, partition: Partition, done: Callable[[KafkaError | None], None]) -> None:
        """Force a partition's log to disk and then call back, with why it could not be."""
        log = partition.log
        self.sync([log], lambda failed: done(failed.get(log)))

    def _lane(self, directory: str) -> DirectorySyncer:
        lane = self._lanes.get(directory)
        if lane is None:
            lane = self._lanes[directory] = DirectorySyncer(self._loop, closed=self._closed)
        return lane

    def close(self) -> None:
        """Stop the threads after what they are doing; what still waits is not forced any more."""
        self._closed = True
        for lane in self._lanes.values():
            lane.close()


class Together:
    """Calls back once several directories are done."""

    def __init__(self, directories: int, done: Done) -> None:
        self._left = directories
        self._failed: dict[Log, KafkaError] = {}
        self._done = done
        if not directories:
            done({})

    def done(self, failed: Failed) -> None:
        """One directory is done."""
        self._failed.update(failed)
        self._left -= 1
        if not self._left:
            self._done(self._failed)


class DirectorySyncer:
    """Forces the logs of one directory, one round at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, closed: bool) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kavka-sync")
        self._logs: dict[Log, None] = {}
        self._waiting: list[tuple[tuple[Log, ...], Done]] = []
        self._running = False
        self._closed = closed

    def sync(self, logs: Iterable[Log], done: Done | None = None) -> None:
        """Force logs to disk and then call back with those of them that could not be."""
        wanted = tuple(logs)
        self._logs.update(dict.fromkeys(wanted))
        if done is not None:
            self._waiting.append((wanted, done))
        if not self._running:
            self._start()

    def _start(self) -> None:
        if self._closed:
            return
        self._running = True
        logs, self._logs = self._logs, {}
        waiting, self._waiting = self._waiting, []
        failed: dict[Log, KafkaError] = {}
        jobs: list[tuple[Log, SyncJob]] = []
        for log in logs:
            try:
                job = log.pending_sync()
                if log.failed is not None:
                    raise KafkaStorageError(log.failed)
                if job is not None:
                    jobs.append((log, job))
            except (KafkaStorageError, OSError) as error:
                failed[log] = cannot_force(log, error)

        def finished(future: asyncio.Future[None]) -> None:
            future.result()
            for log, job in jobs:
                try:
                    log.synced(job)
                except Exception as error:
                    failed[log] = cannot_force(log, error)
            self._running = False
            if self._logs or self._waiting:
                self._start()
            tell(waiting, failed)

        self._loop.run_in_executor(self._thread, run_all, [job for _, job in jobs]).add_done_callback(finished)

    def close(self) -> None:
        """Stop the thread after what it is doing; what still waits is not forced any more."""
        self._closed = True
        self._thread.shutdown(wait=True)


def cannot_force(log: Log, error: Exception) -> KafkaStorageError:
    """What those who wait for a log are told; the operator too."""
    failure = KafkaStorageError(f"cannot force {log.topic_partition} to disk: {error}")
    logger.error("%s", failure)
    return failure


def tell(waiting: Iterable[tuple[tuple[Log, ...], Done]], failed: Failed) -> None:
    """Call back everyone who waited, each with the failures of its own logs."""
    for wanted, done in waiting:
        try:
            done({log: failed[log] for log in wanted if log in failed})
        except Exception:  # one caller's fault: the others still wait
            logger.exception("a callback after flush failed")


def run_all(jobs: list[SyncJob]) -> None:
    """Run jobs one after the other; each keeps its own error."""
    for job in jobs:
        job.run()
