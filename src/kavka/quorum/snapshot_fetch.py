"""Fetching a snapshot from the leader of the quorum: one at a time, begun anew by the core if it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from kavka.model.errors import KafkaError
from kavka.quorum.settings import QuorumSettings
from kavka.quorum.snapshots import Snapshot, SnapshotId
from kavka.raft.core import Raft
from kavka.raft.effects import Effect, FetchSnapshotFrom
from kavka.raft.messages import OffsetAndEpoch, SnapshotReply

logger = logging.getLogger(__name__)

Event = Callable[[], Sequence[Effect]]


class SnapshotSource(Protocol):
    """Fetches snapshots from the leader."""

    async def fetch_snapshot(
        self, effect: FetchSnapshotFrom, heard: Callable[[SnapshotReply], bool], /
    ) -> Snapshot | None:
        """Fetch a snapshot and install it; None if `heard`, called with every answer, refuses to go on."""


class SnapshotDriver(Protocol):
    """Runs the raft core that asks for a snapshot."""

    settings: QuorumSettings

    def spawn(self, work: Coroutine[Any, Any, None], /) -> asyncio.Task[None] | None:
        """Begin what runs besides; None if everything is about to end."""

    def reach(self) -> SnapshotSource:
        """The connections to other nodes."""

    def runs(self, raft: Raft, /) -> bool:
        """Whether a core is the one that runs."""

    def feed(self, event: Event, /) -> None:
        """Give the core an event."""

    def now_ms(self) -> int:
        """The time that the core is told."""

    def install(self, found: OffsetAndEpoch, snapshot: Snapshot, raft: Raft, /) -> None:
        """Go on from a snapshot that was fetched."""


class SnapshotFetch:
    """The snapshot that is being fetched, if one is."""

    def __init__(self, driver: SnapshotDriver) -> None:
        self._driver = driver
        self._wanted: tuple[FetchSnapshotFrom, asyncio.Task[None]] | None = None

    def begin(self, effect: FetchSnapshotFrom, raft: Raft) -> None:
        """Fetch this one, and no other any more."""
        self.stop()
        task = self._driver.spawn(self._fetch(effect, raft))
        self._wanted = (effect, task) if task is not None else None

    def stop(self) -> None:
        """Fetch none any more."""
        if self._wanted is not None:
            _, task = self._wanted
            self._wanted = None
            if task is not asyncio.current_task():
                task.cancel()

    async def _fetch(self, effect: FetchSnapshotFrom, raft: Raft) -> None:
        driver, id_ = self._driver, SnapshotId(*effect.snapshot)

        def wanted() -> bool:
            return self._wanted is not None and self._wanted[0] is effect and driver.runs(raft)

        def heard(head: SnapshotReply) -> bool:
            driver.feed(lambda: raft.on_snapshot_reply(head, driver.now_ms()))
            return wanted()

        logger.info("fetching snapshot %s from node %d", id_.file_name, effect.leader_id)
        try:
            snapshot = await driver.reach().fetch_snapshot(effect, heard)
        except (KafkaError, TimeoutError, OSError) as error:
            logger.warning("fetching snapshot %s failed: %s", id_.file_name, error or type(error).__name__)
            # It will be fetched from its beginning: not at once, again and again, if it is damaged at the leader.
            await asyncio.sleep(driver.settings.raft.fetch_timeout_ms / 4000)
            if wanted():
                self._wanted = None
                driver.feed(lambda: raft.on_snapshot_failed(effect.snapshot, driver.now_ms()))
            return
        if snapshot is not None and wanted():
            self._wanted = None
            driver.install(effect.snapshot, snapshot, raft)
