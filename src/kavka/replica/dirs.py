"""The log directories of this node and which of them can be used."""

from __future__ import annotations

import logging

from kavka.model.types import Uuid
from kavka.storage.disk import Disk

log = logging.getLogger(__name__)


class LogDir:
    """One directory that holds logs; a failed one is offline until the node restarts."""

    __slots__ = ("_disk", "clean", "directory_id", "online", "path", "replicas")

    def __init__(self, disk: Disk, path: str, directory_id: Uuid, *, clean: bool) -> None:
        self._disk = disk
        self.path = path
        self.directory_id = directory_id
        self.clean = clean
        self.online = True
        self.replicas = 0

    def fail(self, why: object) -> None:
        """Take it out of use."""
        if self.online:
            self.online = False
            log.error("log directory %s is offline: %s", self.path, why)

    def space(self) -> tuple[int, int]:
        """Total and usable bytes of its file system."""
        return self._disk.total_bytes(self.path), self._disk.free_bytes(self.path)


def choose(dirs: list[LogDir]) -> LogDir | None:
    """Where a new replica goes: the online directory with the fewest."""
    return min((one for one in dirs if one.online), key=lambda one: one.replicas, default=None)
