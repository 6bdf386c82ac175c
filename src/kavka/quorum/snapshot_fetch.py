"""Fetching a snapshot from the leader of the quorum: one at a time, begun anew by the core if it fails."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kavka.model.errors import KafkaError
from kavka.quorum.snapshots import SnapshotId
from kavka.raft.core import Raft
from kavka.raft.effects import FetchSnapshotFrom
from kavka.raft.messages import SnapshotReply

if TYPE_CHECKING:  # whose part it is
    from kavka.quorum.driver import RaftDriver

log = logging.getLogger(__name__)


class SnapshotFetch:
    """The snapshot that is being fetched, if one is."""

    def __init__(self, driver: RaftDriver) -> None:
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

        log.info("fetching snapshot %s from node %d", id_.file_name, effect.leader_id)
        try:
            snapshot = await driver.reach().fetch_snapshot(effect, heard)
        except (KafkaError, TimeoutError, OSError) as error:
            log.warning("snapshot %s could not be fetched: %s", id_.file_name, error or type(error).__name__)
            # It will be fetched from its beginning: not at once, again and again, if it is damaged at the leader.
            await asyncio.sleep(driver.settings.raft.fetch_timeout_ms / 4000)
            if wanted():
                self._wanted = None
                driver.feed(lambda: raft.on_snapshot_failed(effect.snapshot, driver.now_ms()))
            return
        if snapshot is not None and wanted():
            self._wanted = None
            driver.install(effect.snapshot, snapshot, raft)
