"""The log directories of this node and which of them can be used."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid
from kavka.storage.disk import Disk

logger = logging.getLogger(__name__)

ALL = "*"
"""In `cordoned.log.dirs`: every directory."""


class LogDir:
    """One directory that holds logs; a failed one is offline until the node restarts."""

    __slots__ = (
        "_disk",
        "clean",
        "cordoned",
        "directory_id",
        "disk_error",
        "has_metadata",
        "online",
        "path",
        "replicas",
        "to_recover",
    )

    def __init__(
        self, disk: Disk, path: str, directory_id: Uuid | None, *, clean: bool, has_metadata: bool = False
    ) -> None:
        """`directory_id` is None of one that could not be read at the start."""
        self._disk = disk
        self.path = path
        self.directory_id = directory_id
        self.clean = clean
        self.has_metadata = has_metadata
        self.online = True
        self.cordoned = False
        """Whether no new replica goes there."""
        self.disk_error: str | None = None
        """What the disk has refused, until that is looked at."""
        self.replicas = 0
        self.to_recover = False
        """Whether it has a log that could not be created, or recovered: the next start has to look at it."""

    @property
    def name(self) -> str:
        """Its absolute path: what clients know it by."""
        return os.path.abspath(self.path)

    def fail(self, why: object) -> None:
        """Take it offline."""
        if self.online:
            self.online = False
            logger.error("log directory %s is offline: %s", self.path, why)

    def space(self) -> tuple[int, int]:
        """Total and usable bytes of its file system."""
        return self._disk.total_bytes(self.path), self._disk.free_bytes(self.path)


def choose(dirs: list[LogDir]) -> LogDir | None:
    """Where a new replica goes: the online directory with the fewest replicas, but no cordoned one if there are others.

    If all are cordoned, the first: the controller may have placed the replica before it knew.
    """
    online = [directory for directory in dirs if directory.online]
    open_ = [directory for directory in online if not directory.cordoned]
    return min(open_ or online[:1], key=lambda directory: directory.replicas, default=None)


def cordon(dirs: Iterable[LogDir], paths: Iterable[str]) -> None:
    """Cordon these directories and no others."""
    named = set(paths)
    for directory in dirs:
        directory.cordoned = ALL in named or directory.path in named


def cordoned_ids(dirs: Iterable[LogDir]) -> list[Uuid]:
    """The ids of the cordoned directories."""
    return [directory.directory_id for directory in dirs if directory.cordoned and directory.directory_id is not None]


def offline_ids(dirs: Iterable[LogDir]) -> list[Uuid]:
    """The ids of the directories that have gone offline since the start.

    Raises KafkaStorageError if one has the metadata log: without it there is no node.
    """
    found: list[Uuid] = []
    for directory in dirs:
        if not directory.online and directory.has_metadata:
            raise KafkaStorageError(f"log directory {directory.path} is offline, and the metadata log lies in it")
        if not directory.online and directory.directory_id is not None:
            found.append(directory.directory_id)
    return found
