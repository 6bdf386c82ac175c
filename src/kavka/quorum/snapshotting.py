"""Writing snapshots of the published image, and cleaning up what they make unnecessary."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from kavka.metadata.image import EMPTY, MetadataImage
from kavka.metadata.image.emit import records_of
from kavka.metadata.records import encode_record
from kavka.metadata.versions import write_version
from kavka.model.clock import Clock
from kavka.model.errors import KafkaStorageError
from kavka.pacing.turn import Turn
from kavka.quorum.driver import RaftDriver
from kavka.quorum.settings import SnapshotRules
from kavka.quorum.snapshots import SnapshotId, SnapshotWriter, store_snapshot

logger = logging.getLogger(__name__)


class Snapshotter:
    """Keeps the way from the newest snapshot to the end of the log short."""

    def __init__(self, quorum: RaftDriver, clock: Clock, rules: SnapshotRules) -> None:
        self._quorum = quorum
        self._clock = clock
        self._rules = rules
        self._image = EMPTY
        self._timestamp_ms = -1
        self._due = asyncio.Event()

    def has_image(self, image: MetadataImage, timestamp_ms: int) -> None:
        """An image is published; its last record was written at a time."""
        self._image, self._timestamp_ms = image, timestamp_ms

    def consider(self) -> None:
        """Take a snapshot soon if enough was written since the last."""
        metadata_log, rules = self._quorum.log, self._rules
        written = metadata_log.bytes_after_snapshot()
        if written >= rules.max_bytes or (
            written >= rules.small_bytes and written >= 2 * metadata_log.snapshot_bytes()
        ):
            self._due.set()

    async def run(self, threads: ThreadPoolExecutor) -> None:
        """Take snapshots when they are due until cancelled."""
        interval = self._rules.interval_ms / 1000 if self._rules.interval_ms else None
        while True:
            try:
                async with asyncio.timeout(interval):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            try:
                if await self.take(threads) is not None:
                    self._due.clear()  # what was written meanwhile is counted anew
                    self.consider()
                rules = self._rules
                self._quorum.log.clean(
                    self._quorum.high_watermark, rules.retention_bytes, rules.retention_ms, self._clock.now_ms()
                )
            except (KafkaStorageError, OSError) as error:
                logger.error("writing a metadata snapshot failed: %s", error)

    async def take(self, threads: ThreadPoolExecutor) -> SnapshotId | None:
        """Write a snapshot of what is published; None if there is nothing new to write."""
        quorum, image = self._quorum, self._image
        id_ = SnapshotId(image.offset + 1, image.epoch)
        metadata_log = quorum.log
        newest = metadata_log.snapshots[0] if metadata_log.snapshots else SnapshotId(-1, -1)
        if image is EMPTY or id_.offset <= newest.offset or id_.offset > metadata_log.end_offset:
            return None
        metadata_log.roll(self._clock.now_ms())
        writer = SnapshotWriter(image.epoch, self._timestamp_ms, self._clock.now_ms(), quorum.control_at(id_.offset))
        level = image.features.metadata_version
        turn = Turn()
        for record in records_of(image):
            writer.add(encode_record(record, write_version(record, level)))
            await turn.breathe()
        data = writer.finish()
        await asyncio.get_running_loop().run_in_executor(
            threads, store_snapshot, metadata_log.disk, metadata_log.path, id_, data
        )
        if metadata_log.snapshots and metadata_log.snapshots[0].offset > id_.offset:
            return None  # the leader has sent a newer one meanwhile
        metadata_log.has_snapshot(id_, quorum.high_watermark, self._clock.now_ms())
        quorum.raft.history.forget_before(metadata_log.start_offset)
        return id_
