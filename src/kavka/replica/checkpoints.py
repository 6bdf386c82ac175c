"""The checkpoint files of the log directories: what a restart needs to know beside the logs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping

from kavka.model.errors import KafkaStorageError
from kavka.model.types import TopicPartition
from kavka.replica.dirs import LogDir
from kavka.replica.unified_log import UnifiedLog
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets, write_offsets
from kavka.storage.disk import Disk

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]
Read = Callable[[UnifiedLog], int]

OFFSETS: dict[str, Read] = {
    files.RECOVERY_POINTS: lambda partition: partition.log.recovery_point,
    files.LOG_STARTS: lambda partition: partition.log_start_offset,
    files.HIGH_WATERMARKS: lambda partition: partition.high_watermark,
}


class Checkpoints:
    """Reads the checkpoints once, and writes each when it changed."""

    def __init__(self, disk: Disk, dirs: list[LogDir], logs_in: Callable[[LogDir], Iterator[UnifiedLog]]) -> None:
        self._disk = disk
        self._dirs = dirs
        self._logs_in = logs_in
        self._written: dict[str, Offsets] = {}
        self._unloaded: dict[str, dict[TopicPartition, int]] = {}
        self._turn = asyncio.Lock()
        self._disk_turn = threading.Lock()
        self._generation = 0

    def read(self, directory: LogDir, kind: str) -> Offsets:
        """What a checkpoint says, or nothing if it is damaged: then the logs themselves are looked through."""
        path = f"{directory.path}/{kind}"
        if not self._disk.exists(path):
            return {}  # and it is to be written, even if there is nothing to say
        try:
            self._written[path] = read_offsets(self._disk, path)
        except KafkaStorageError as error:
            logger.warning("%s; going on without it", error)
            return {}
        return self._written[path]

    def keep(self, directory: LogDir, tp: TopicPartition) -> None:
        """Of a log that could not be loaded: what is written of it stays, for the start at which it can be."""
        for kind in OFFSETS:
            path = f"{directory.path}/{kind}"
            if tp in self._written.get(path, ()):
                self._unloaded.setdefault(path, {})[tp] = self._written[path][tp]

    async def write(self, kind: str) -> list[LogDir]:
        """Write one kind of checkpoint in every directory, durably, away from the loop; where it could not be."""
        async with self._turn:
            return [
                directory for directory in self._dirs if not (directory.online and await self._write(directory, kind))
            ]

    async def _write(self, directory: LogDir, kind: str) -> bool:
        path = f"{directory.path}/{kind}"
        loop = asyncio.get_running_loop()
        while (offsets := self._offsets(directory, kind)) != self._written.get(path):
            try:
                stored = await loop.run_in_executor(None, self._store, path, offsets, self._generation)
            except OSError as error:
                # A full disk may have space again at the next time.
                logger.error("cannot write the checkpoint %s: %s", path, error)
                directory.disk_error = str(error)
                return False
            if stored:
                self._written[path] = offsets
                return True
        return True

    def write_all(self, directory: LogDir) -> None:
        """Write every kind of a directory now, as the last thing before a clean stop; raises OSError."""
        for kind in OFFSETS:
            self._write_now(directory, kind)

    def forget(self, directory: LogDir, tp: TopicPartition) -> None:
        """Before a log is created: nothing that is written of an earlier one of its name may be taken for its own."""
        for kind in OFFSETS:
            self._unloaded.get(f"{directory.path}/{kind}", {}).pop(tp, None)
        for kind in (files.RECOVERY_POINTS, files.LOG_STARTS):
            if tp in self._written.get(f"{directory.path}/{kind}", ()):
                self._write_now(directory, kind)

    def _write_now(self, directory: LogDir, kind: str) -> None:
        path, offsets = f"{directory.path}/{kind}", self._offsets(directory, kind)
        self._generation += 1  # what another thread has still to write is out of date
        if self._written.get(path) != offsets:
            self._store(path, offsets, self._generation)
            self._written[path] = offsets

    def _store(self, path: str, offsets: Offsets, generation: int) -> bool:
        """Write a file unless its content was overtaken; on any thread."""
        with self._disk_turn:
            if generation != self._generation:
                return False
            write_offsets(self._disk, path, offsets)
            return True

    def _offsets(self, directory: LogDir, kind: str) -> dict[TopicPartition, int]:
        read = OFFSETS[kind]
        held = self._logs_in(directory)
        if kind == files.LOG_STARTS:
            held = (partition for partition in held if partition.start_is_checkpointed)
        offsets = {**self._unloaded.get(f"{directory.path}/{kind}", {})}
        offsets.update((partition.topic_partition, read(partition)) for partition in held)
        return offsets
