"""Moving replicas between log directories: future logs are brought up to the current ones, and take their place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from kavka.client.deadline import within
from kavka.client.line import TOLD
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError, KafkaStorageError, UnsupportedVersion
from kavka.model.settings import (
    ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM,
    ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS,
    REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND,
)
from kavka.replica.futures import FutureReplica
from kavka.replica.manager import ReplicaManager
from kavka.replica.placing import AssignDirs, Placement
from kavka.replica.syncing import Failed, Syncer
from kavka.replication.follower import truncation_offset
from kavka.replication.throttle import Throttle
from kavka.storage.disk import DiskFile
from kavka.storage.log import MAX_EPOCH

logger = logging.getLogger(__name__)

AT_A_TIME: Final = 1 << 20
FEWEST_AT_A_TIME: Final = 1 << 14
"""Under a throttle: what is copied at once is about what a second allows, but no less than this."""
REST_SECONDS: Final = 0.05
TRY_AGAIN_SECONDS: Final = 1.0


class Moving:
    """Copies what is to be moved, one piece after another, as fast as is allowed."""

    def __init__(self, replicas: ReplicaManager, syncer: Syncer, assign: AssignDirs, clock: Clock) -> None:
        values = replicas.values
        self._replicas = replicas
        self._syncer = syncer
        self._assign = assign
        self._clock = clock
        self._throttle = Throttle(
            values[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
            values[ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM],
            values[ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS] * 1000,
        )
        self._wake = asyncio.Event()
        replicas.futures.watch(self._wake.set)

    async def run(self) -> None:
        """Move until cancelled."""
        while True:
            self._wake.clear()
            if not len(self._replicas.futures):
                await self._wake.wait()
            self._throttle.rate = self._replicas.values[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND]
            busy = False
            for future in self._replicas.futures:
                busy = await self._attempt(future) or busy
            if not busy:
                await self._rest()

    async def _rest(self) -> None:
        try:
            async with within(REST_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _attempt(self, future: FutureReplica) -> bool:
        """Bring one further; whether there is more to do at once."""
        tp = future.topic_partition
        try:
            return self._stands(future) and await self._advance(future)
        except KafkaStorageError as error:
            logger.error("%s: moving to %s failed: %s", tp, future.directory.path, error)
            self._replicas.check_dirs()
            if self._stands(future):
                self._replicas.futures.drop(future, "the disk refused it")
            return True
        except TOLD:
            pass  # no controller was there to be told
        except KafkaError as error:
            logger.info("%s: moving to %s is tried again: %s", tp, future.directory.path, error)
        except Exception:
            logger.exception("%s: moving to %s failed, retrying", tp, future.directory.path)
        await asyncio.sleep(TRY_AGAIN_SECONDS)
        return False

    def _stands(self, future: FutureReplica) -> bool:
        """Whether a move has not been given up, nor its partition."""
        futures, tp = self._replicas.futures, future.topic_partition
        return futures.of(tp) is future and self._replicas.held(*tp) is future.current

    async def _advance(self, future: FutureReplica) -> bool:
        align(future, self._clock.now_ms())
        if future.lag:
            return await self._copy(future)
        if not future.promised:
            await self._promise(future)
        if self._stands(future) and self._catch_up(future):
            self._replicas.futures.promote(future)
        return True

    async def _copy(self, future: FutureReplica) -> bool:
        """Copy a piece of the current log; whether one was allowed."""
        if self._throttle.exceeded(self._clock.monotonic_ms()):
            return False
        current = future.current.log
        offset, generation = future.log_end_offset, current.generation
        size = max(min(AT_A_TIME, self._throttle.rate), FEWEST_AT_A_TIME)
        piece = current.read(offset, size, current.log_end_offset)
        if piece is None:
            return False
        file = cast(DiskFile, piece.file)  # what a log gives lies in a file of its disk
        file.pin()
        try:
            read = asyncio.get_running_loop().run_in_executor(None, file.read_at, piece.position, piece.length)
            data = await read
        except OSError as error:
            self._replicas.directory_of(future.current).disk_error = str(error)
            raise KafkaStorageError(f"cannot read {future.topic_partition}: {error}") from error
        finally:
            file.unpin()
        same = future.current.log is current and current.generation == generation
        if self._stands(future) and same and future.log_end_offset == offset:
            self._take_in(future, data)
        return True

    def _take_in(self, future: FutureReplica, data: bytes) -> None:
        future.append_as_follower(data, MAX_EPOCH, self._clock.now_ms())
        future.follow_leader(future.current.high_watermark, future.current.log_start_offset)
        self._throttle.record(len(data), self._clock.monotonic_ms())

    async def _promise(self, future: FutureReplica) -> None:
        """Force what was copied to disk, and tell the controller where the replica will lie."""
        await self._forced(future)
        if not self._stands(future):
            return
        directory_id = future.directory.directory_id
        assert directory_id is not None  # one without is offline
        future.promised = True
        index = future.topic_partition.partition
        try:
            await self._assign([Placement(directory_id, future.topic_id, index)])
        except UnsupportedVersion:
            pass  # this metadata.version does not know of directories
        except KafkaError:
            future.promised = False
            raise

    async def _forced(self, future: FutureReplica) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Failed] = loop.create_future()
        told: Callable[[Failed], None] = lambda failed: None if done.done() else done.set_result(failed)  # noqa: E731
        self._syncer.sync([future.log], told)
        failed = await done
        if future.log in failed:
            raise failed[future.log]

    def _catch_up(self, future: FutureReplica) -> bool:
        """Copy what has been appended since, if that is little; whether nothing is left. Nothing comes in between."""
        align(future, self._clock.now_ms())
        if future.lag:
            data = future.current.read_own(future.log_end_offset, AT_A_TIME)
            self._take_in(future, data)
        future.follow_leader(future.current.high_watermark, future.current.log_start_offset)
        return not future.lag


def align(future: FutureReplica, now_ms: int) -> None:
    """Cut a future log back to what the current one has: that may have been truncated, or have lost its beginning."""
    current, log = future.current.log, future.log
    while log.epochs.latest >= 0:
        epoch, end = current.epochs.end_offset_for(log.epochs.latest, current.log_end_offset)
        if epoch < 0:  # the current log has older epochs only
            epoch, end = current.epochs.latest, current.log_end_offset
        if epoch == log.epochs.latest and log.log_end_offset <= end:
            break
        future.truncate(truncation_offset((epoch, end), log.epochs, log.log_end_offset) if epoch >= 0 else 0, now_ms)
    start = current.local_log_start_offset
    if not start <= log.log_end_offset <= current.log_end_offset:
        log.start_after(start, min(current.log_start_offset, start), current.epochs.entries, None, now_ms)
        future.high_watermark = start
