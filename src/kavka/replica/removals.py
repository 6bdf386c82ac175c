"""Directories on their way out: of deleted logs, which wait for their delay, and those that earlier runs have left."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kavka.storage.log import Log


class DeletedLog(NamedTuple):
    """A log whose directory bears a deletion mark and goes for good at some time."""

    at_ms: int
    log: Log


class Removals:
    """What is to be removed for good, and when."""

    def __init__(self) -> None:
        self.deleted: deque[DeletedLog] = deque()
        """Logs whose delay is not over, in the order in which they go."""
        self.leftovers: list[str] = []
        """Directories that only have to be removed."""

    def add(self, log: Log, at_ms: int) -> None:
        """A log was marked as deleted."""
        self.deleted.append(DeletedLog(at_ms, log))

    def add_leftover(self, path: str) -> None:
        """A directory of an earlier run was found."""
        self.leftovers.append(path)

    def next(self, now_ms: int) -> str | None:
        """A directory that is to be removed now; its log is closed."""
        if self.deleted and self.deleted[0].at_ms <= now_ms:
            log = self.deleted.popleft().log
            log.let_go()
            return log.path
        return self.leftovers.pop() if self.leftovers else None
