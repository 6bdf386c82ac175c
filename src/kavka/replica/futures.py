"""Replicas on their way to another log directory of this node (KIP-113): the logs that take their place there.

A future log lies in `<topic>-<partition>.<32 hex digits>-future`. Once it has all that the current one has, and the
controller knows of its directory, its name becomes the partition's, and the log that was current is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from kavka.model.errors import (
    InvalidReplicaAssignment,
    InvalidTopicException,
    KafkaStorageError,
    LogDirNotFound,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
)
from kavka.model.types import TopicPartition
from kavka.replica.dirs import LogDir
from kavka.replica.partition import Partition
from kavka.replica.unified_log import UnifiedLog
from kavka.storage import files
from kavka.storage.log import Log

if TYPE_CHECKING:
    from kavka.replica.manager import ReplicaManager

logger = logging.getLogger(__name__)

MAX_NAME: Final = 255


class FutureReplica(UnifiedLog):
    """A log that copies a partition's in another directory."""

    __slots__ = ("current", "directory", "promised")

    def __init__(self, current: Partition, log: Log, directory: LogDir, high_watermark: int = 0) -> None:
        super().__init__(current.topic_partition, current.topic_id, log, current.rules, high_watermark)
        self.current = current
        self.directory = directory
        self.promised = False
        """Whether the controller is, or may have been, told that the replica lies here."""

    @property
    def lag(self) -> int:
        """How many offsets are still to be copied."""
        return self.current.log_end_offset - self.log_end_offset

    @property
    def start_is_checkpointed(self) -> bool:
        """Whether the files do not tell where the log starts."""
        return self.log.log_start_offset != self.log.segments[0].base_offset


class Futures:
    """The future replicas of a node, at most one for each partition."""

    def __init__(self, replicas: ReplicaManager, new_name: Callable[[], str]) -> None:
        self._replicas = replicas
        self._new_name = new_name
        self._by_partition: dict[TopicPartition, FutureReplica] = {}
        self._preferred: dict[TopicPartition, LogDir] = {}
        self._watchers: list[Callable[[], None]] = []
        self.moved = 0
        """How many replicas were moved since the start."""

    def __iter__(self) -> Iterator[FutureReplica]:
        return iter(list(self._by_partition.values()))

    def __len__(self) -> int:
        return len(self._by_partition)

    def of(self, tp: TopicPartition) -> FutureReplica | None:
        """The future replica of a partition, if it is being moved."""
        return self._by_partition.get(tp)

    def in_directory(self, directory: LogDir) -> Iterator[FutureReplica]:
        """Those that come into a directory."""
        return (future for future in self if future.directory is directory)

    def watch(self, told: Callable[[], None]) -> None:
        """Tell whenever there is a new one."""
        self._watchers.append(told)

    # -- what is asked for --------------------------------------------------------------------

    def move(self, tp: TopicPartition, path: str) -> None:
        """Begin to move a replica to a directory, in place of any other move of it; raises KafkaError.

        One that is to come to this node later is remembered, and refused all the same, as Kafka does.
        """
        if len(f"{tp}.{'0' * 32}{files.FUTURE_DIR}") > MAX_NAME:
            raise InvalidTopicException(f"{tp} has too long a name to be moved")
        target = self._directory(path)
        if not target.online:
            raise KafkaStorageError(f"log directory {path} is offline")
        if target.cordoned:
            raise InvalidReplicaAssignment(f"log directory {path} is cordoned")
        future = self.of(tp)
        if future is not None and future.directory is not target:
            self.drop(future, f"it is to go to {path}")
        try:
            partition = self._replicas.find(*tp)
        except NotLeaderOrFollower as error:
            self._preferred[tp] = target
            raise ReplicaNotAvailable(str(error)) from None
        if self._replicas.directory_of(partition) is not target and self.of(tp) is None:
            lost = [directory.path for directory in self._replicas.dirs if not directory.online]
            if lost:
                raise KafkaStorageError(f"{tp} is not moved while {', '.join(lost)} is offline: it may lie there too")
            self._begin(partition, target)

    def _directory(self, path: str) -> LogDir:
        for directory in self._replicas.dirs:
            if path in (directory.name, directory.path):
                return directory
        raise LogDirNotFound(f"this broker has no log directory {path}")

    def preferred(self, tp: TopicPartition) -> LogDir | None:
        """Where a replica that comes to this node was asked to go; asked once."""
        directory = self._preferred.pop(tp, None)
        return directory if directory is not None and directory.online else None

    def _begin(self, partition: Partition, target: LogDir) -> None:
        tp = partition.topic_partition
        path = f"{target.path}/{files.marked_dir_name(tp, self._new_name(), files.FUTURE_DIR)}"
        try:
            log = Log.create(self._replicas.disk, path, tp, partition.topic_id, partition.rules.log)
        except KafkaStorageError as error:
            target.disk_error = str(error)
            raise
        logger.info("%s: moving from %s to %s", tp, self._replicas.directory_of(partition).path, target.path)
        self.add(FutureReplica(partition, log, target))

    # -- coming and going -----------------------------------------------------------------------

    def add(self, future: FutureReplica) -> None:
        """A new one, or one that was found on disk."""
        self._replicas.watch(future.log)
        future.directory.replicas += 1
        self._by_partition[future.topic_partition] = future
        for told in self._watchers:
            told()

    def drop(self, future: FutureReplica, why: str) -> None:
        """Give a move up, and delete what was copied."""
        self._forget(future)
        logger.info("%s: no longer moved to %s: %s", future.topic_partition, future.directory.path, why)
        self._replicas.delete_log(future.log)

    def abandon(self, directory: LogDir) -> None:
        """A directory is offline: moves into it, and of what lies in it, end; what is on disk stays for a restart."""
        for future in self:
            if future.directory is directory or self._replicas.directory_of(future.current) is directory:
                self._forget(future)
                future.log.abandon(f"{future.topic_partition} is no longer moved: {directory.path} is offline")

    def _forget(self, future: FutureReplica) -> None:
        del self._by_partition[future.topic_partition]
        future.directory.replicas -= 1

    def promote(self, future: FutureReplica) -> None:
        """Let a future replica that has everything take the place of the current one; raises KafkaStorageError.

        All at once for those who use the partition. After a crash in between, two directories may have a log of the
        partition's name: the one that the metadata knows is right.
        """
        partition, log = future.current, future.log
        tp, target = partition.topic_partition, future.directory
        log.producers.take_over(partition.log.producers)
        log.epochs.restore(partition.log.epochs.entries)
        if partition.rules.flushes or log.recovery_point < partition.log.recovery_point:
            log.sync()
        try:
            self._make_room(target, tp)
            log.rename_dir(str(tp))
            self._replicas.disk.fsync_dir(target.path)
        except OSError as error:
            target.disk_error = str(error)
            raise KafkaStorageError(f"{tp} cannot be moved to {target.path}: {error}") from error
        source = self._replicas.directory_of(partition)
        self._forget(future)
        before = partition.move_to(log)
        self._replicas.moved(partition, target)
        self.moved += 1
        logger.info("%s: moved from %s to %s", tp, source.path, target.path)
        self._replicas.delete_log(before)

    def _make_room(self, target: LogDir, tp: TopicPartition) -> None:
        """What is left of a log that could not be deleted must not stand in the way."""
        disk, path = self._replicas.disk, f"{target.path}/{tp}"
        if disk.exists(path):
            disk.rename(path, f"{target.path}/{files.marked_dir_name(tp, self._new_name(), files.STRAY_DIR)}")
