"""fsync away from the loop, many logs at a time: callers that come while one runs share the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kavka.model.errors import KafkaError, KafkaStorageError
from kavka.replica.partition import Partition
from kavka.storage.log import Log
from kavka.storage.sync import SyncJob

log = logging.getLogger(__name__)

Failed = Mapping[Log, KafkaError]
"""The logs that could not be forced to disk, and why."""
Done = Callable[[Failed], None]


class Syncer:
    """Forces logs to disk in a thread of its own, one round at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kavka-sync")
        self._logs: dict[Log, None] = {}
        self._waiting: list[tuple[tuple[Log, ...], Done]] = []
        self._running = False
        self._closed = False

    def sync(self, logs: Iterable[Log], done: Done | None = None) -> None:
        """Force logs to disk and then call back with those of them that could not be."""
        wanted = tuple(logs)
        self._logs.update(dict.fromkeys(wanted))
        if done is not None:
            self._waiting.append((wanted, done))
        if not self._running:
            self._start()

    def force(self, partition: Partition, done: Callable[[KafkaError | None], None]) -> None:
        """Force a partition's log to disk and then call back, with why it could not be."""
        log = partition.log
        self.sync([log], lambda failed: done(failed.get(log)))

    def _start(self) -> None:
        if self._closed:
            return
        self._running = True
        logs, self._logs = self._logs, {}
        waiting, self._waiting = self._waiting, []
        failed: dict[Log, KafkaError] = {}
        jobs: list[tuple[Log, SyncJob]] = []
        for one in logs:
            try:
                job = one.pending_sync()
                if one.failed is not None:
                    raise KafkaStorageError(one.failed)
                if job is not None:
                    jobs.append((one, job))
            except (KafkaStorageError, OSError) as error:
                failed[one] = cannot_force(one, error)

        def finished(future: asyncio.Future[None]) -> None:
            future.result()
            for one, job in jobs:
                try:
                    one.synced(job)
                except KafkaStorageError as error:
                    failed[one] = cannot_force(one, error)
            self._running = False
            if self._logs or self._waiting:
                self._start()
            tell(waiting, failed)

        self._loop.run_in_executor(self._thread, run_all, [job for _, job in jobs]).add_done_callback(finished)

    def close(self) -> None:
        """Stop the thread after what it is doing; what still waits is not forced any more."""
        self._closed = True
        self._thread.shutdown(wait=True)


def cannot_force(one: Log, error: Exception) -> KafkaStorageError:
    """What those who wait for a log are told; the operator too."""
    failure = KafkaStorageError(f"cannot force {one.topic_partition} to disk: {error}")
    log.error("%s", failure)
    return failure


def tell(waiting: Iterable[tuple[tuple[Log, ...], Done]], failed: Failed) -> None:
    """Call back everyone who waited, each with the failures of its own logs."""
    for wanted, done in waiting:
        try:
            done({one: failed[one] for one in wanted if one in failed})
        except Exception:  # one caller's fault: the others still wait
            log.exception("what waited for the disk could not go on")


def run_all(jobs: list[SyncJob]) -> None:
    """Run jobs one after the other; each keeps its own error."""
    for job in jobs:
        job.run()
