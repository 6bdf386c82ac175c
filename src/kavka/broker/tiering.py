"""Tiered storage of a node put together: the store, its caches, the catalogue and who tends the partitions.

Not imported by a node without `remote.log.storage.system.enable`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kavka.client.connector import Connector
from kavka.client.pool import Pool
from kavka.controller.topics import NewTopic
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import REMOTE_LOG_METADATA, REMOTE_LOG_METADATA_CLIENT
from kavka.model.clock import Clock
from kavka.model.errors import InvalidConfig
from kavka.model.settings import Values, tiered
from kavka.model.types import Endpoint, Uuid
from kavka.pacing.backseat import Backseat
from kavka.quorum.format import random_id
from kavka.quorum.internal_topics import create, replication
from kavka.quorum.topic_creation import TopicCreation
from kavka.replica.manager import ReplicaManager
from kavka.replication.throttle import Throttle
from kavka.runtime.remote_catalog.catalog import RemoteCatalog
from kavka.runtime.remote_catalog.event_log import Opened
from kavka.runtime.remote_catalog.topic_log import TopicLog
from kavka.runtime.remote_log_manager import RemoteLogManager
from kavka.runtime.remote_logs import RemoteLogs
from kavka.storage.disk import Disk
from kavka.telemetry.metrics import Labelled, Metrics
from kavka.tiered.chunk_loader import ChunkLoader
from kavka.tiered.disk_cache import DiskCache
from kavka.tiered.objects.base import ObjectStore, StoreError
from kavka.tiered.objects.guard import StoreLimits, StoreMetrics
from kavka.tiered.objects.opening import open_segments
from kavka.tiered.objects.sealing import KeyRing, Sealing
from kavka.tiered.objects.segments import SegmentStore
from kavka.tiered.segment_reader import SegmentReader

logger = logging.getLogger(__name__)

FOLDER: Final = "kavka-remote"
INDEX_CACHE, CHUNK_CACHE, CATALOGUE = "indexes", "chunks", "catalogue"
THREADS: Final = 4
"""For reading, checking and sealing chunks; a store's own calls wait elsewhere."""


class Tiering:
    """What a node needs for tiered storage: first the tiers that replicas are loaded with, then the rest."""

    def __init__(
        self,
        settings: LiveSettings,
        disk: Disk,
        folder: str,
        clock: Clock,
        metrics: Metrics,
        store: ObjectStore | None = None,
        new_id: Callable[[], Uuid] = random_id,
    ) -> None:
        """`folder` is where the caches are; `store` stands for the one that the settings name."""
        values = settings.values
        self._new_id = new_id
        self._settings = settings
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, "tiering")
        self._store = segment_store(values, self._threads, metrics, store)
        self._snapshots = CatalogueFolder(disk, f"{folder}/{CATALOGUE}")
        index_bytes = values[tiered.REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES]
        self._indexes = DiskCache(disk, f"{folder}/{INDEX_CACHE}", index_bytes, self._threads)
        chunk_bytes = values[tiered.KAVKA_REMOTE_CACHE_BYTES]
        self._chunks = DiskCache(disk, f"{folder}/{CHUNK_CACHE}", chunk_bytes, self._threads)
        loader = ChunkLoader(self._store, self._chunks, fetches=lambda: settings[tiered.REMOTE_LOG_READER_THREADS])
        self._read = Throttle(
            values[tiered.REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND],
            values[tiered.REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM],
            values[tiered.REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS] * 1000,
        )
        self._copied = Throttle(
            values[tiered.REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND],
            values[tiered.REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM],
            values[tiered.REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS] * 1000,
        )
        settings.subscribe(self._follow_settings)
        self.tiers = RemoteLogs(
            SegmentReader(self._store, loader, self._indexes),
            self._read,
            clock.monotonic_ms,
            lambda: settings[tiered.REMOTE_LOG_READER_MAX_PENDING_TASKS],
            Backseat(lambda: settings[tiered.KAVKA_REMOTE_READ_BESIDE_BYTES_PER_SECOND]),
        )

    def _follow_settings(self, values: Values) -> None:
        self._read.rate = values[tiered.REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND]
        self._copied.rate = values[tiered.REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND]
        self._indexes.max_bytes = values[tiered.REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES]

    def join(
        self,
        replicas: ReplicaManager,
        topics: TopicCreation,
        connector: Connector,
        endpoints: Sequence[Endpoint],
        unheard: Callable[[], bool],
    ) -> Tending:
        """What tends the partitions of a broker.

        `endpoints` are where it is reached by others like it, `unheard` whether it has lost touch with the controller.
        """
        settings = self._settings
        pool = Pool(
            [f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints],
            client_id=f"{REMOTE_LOG_METADATA_CLIENT}{replicas.node_id}",
            connector=connector,
        )
        log = TopicLog(
            pool,
            lambda: create_topic(topics, settings.values),
            lambda: opened(topics.image),
            wanted_partitions=settings[tiered.RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_NUM_PARTITIONS],
            delivery_timeout_ms=settings[tiered.RLMM_CONFIG_REMOTE_LOG_METADATA_CONSUME_WAIT_MS],
            clock=self._clock,
        )
        wait_ms = settings[tiered.RLMM_CONFIG_REMOTE_LOG_METADATA_CONSUME_WAIT_MS]
        catalog = RemoteCatalog(log, self._snapshots, wait_ms=wait_ms)
        self.tiers.serve(catalog, replicas)
        manager = RemoteLogManager(
            replicas.node_id,
            replicas,
            self.tiers,
            self._store,
            settings,
            self._clock,
            self._copied,
            self._new_id,
            unheard,
        )
        url = settings[tiered.KAVKA_REMOTE_STORAGE_URL] or ""
        swept = self._store.objects if url.startswith("file:") else None
        return Tending(self.tiers, catalog, manager, (self._indexes, self._chunks), swept)

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Tending:
    """The services of tiered storage."""

    def __init__(
        self,
        tiers: RemoteLogs,
        catalog: RemoteCatalog,
        manager: RemoteLogManager,
        caches: Sequence[DiskCache],
        swept: ObjectStore | None,
    ) -> None:
        """`swept` is a store that uploads may have left something in whose node died: a directory."""
        self._tiers = tiers
        self._catalog = catalog
        self._manager = manager
        self._caches = caches
        self._swept = swept

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Act on a committed change of the metadata, after the replicas have."""
        self._manager.apply(image, delta)

    async def run(self) -> None:
        """Read, follow and tend until cancelled."""
        for cache in self._caches:
            await cache.load()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tiers.run())
            tasks.create_task(self._catalog.run())
            tasks.create_task(self._manager.run())
            if self._swept is not None:
                tasks.create_task(self._sweep(self._swept))

    async def _sweep(self, store: ObjectStore) -> None:
        """Remove what a node that died amid an upload has left, this one or another."""
        try:
            gone = await store.abandoned(remove=True)
        except StoreError as error:
            logger.warning("abandoned uploads could not be looked for: %s", error)
            return
        if gone:
            logger.info("removed %d abandoned uploads of %d bytes", len(gone), sum(info.size for info in gone))

    def show(self, metrics: Metrics) -> None:
        """What an operator may want to watch."""
        tiers, catalog, manager = self._tiers, self._catalog, self._manager
        counts = manager.counts
        for name, help, grown in (
            ("copied_bytes", "Bytes of segments copied to the store.", lambda: counts.copied_bytes),
            ("copied_segments", "Segments copied to the store.", lambda: counts.copied_segments),
            ("copy_errors", "Segments that could not be copied.", lambda: counts.failed_copies),
            ("copies_held_back", "Looks at segments whose copies were put off by a limit.", lambda: counts.held_back),
            ("deleted_segments", "Remote segments removed.", lambda: counts.deleted_segments),
            ("delete_errors", "Remote segments that could not be removed.", lambda: counts.failed_deletions),
            ("reads", "Reads of remote segments.", lambda: tiers.reads),
            ("read_bytes", "Bytes of remote segments given to clients.", lambda: tiers.read_bytes),
            ("read_errors", "Reads of remote segments that failed.", lambda: tiers.failed_reads),
            ("reads_held_back", "Reads that were put off by a limit.", lambda: tiers.held_back),
            ("reads_gave_way", "Reads that waited because others were served.", lambda: tiers.seat.waits),
            ("catalogue_attempts", "Times it was tried to begin with the catalogue.", lambda: catalog.attempts),
            ("catalogue_published", "Events written to __remote_log_metadata.", lambda: catalog.published),
            ("catalogue_timeouts", "Events that were not read again in time.", lambda: catalog.waits_timed_out),
            ("catalogue_snapshots", "Times the catalogue was kept on disk.", lambda: catalog.snapshots_written),
            ("catalogue_snapshot_errors", "Times it could not be.", lambda: catalog.snapshots_failed),
        ):
            metrics.count(f"kavka_remote_{name}", help, grown)
        for name, help, now in (
            ("copy_lag_segments", "Sealed segments that are not copied yet.", lambda: manager.copy_lag[0]),
            ("copy_lag_bytes", "Bytes in them.", lambda: manager.copy_lag[1]),
            ("reads_pending", "Reads of remote segments under way.", lambda: tiers.pending),
            ("catalogue_unready", "Needed partitions of __remote_log_metadata not read yet.", lambda: catalog.unready),
        ):
            metrics.gauge(f"kavka_remote_{name}", help, now)
        metrics.counts("kavka_remote_catalogue_events", "Events read, by outcome.", ("outcome",), self._events)

    def _events(self) -> Iterator[Labelled]:
        live = self._catalog.live
        if live is not None:
            yield ("applied",), live.counts.applied
            yield ("invalid_transition",), live.counts.invalid_transitions
            yield ("unknown_segment",), live.counts.unknown_segments
            yield ("unreadable",), live.counts.unreadable + live.counts.impossible


class CatalogueFolder:
    """What a node keeps of its catalogue on disk; the file is named after the topic that it was read from."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder

    async def read(self, log: Uuid) -> bytes | None:
        """What was kept of a topic; that of others goes."""
        return await asyncio.get_running_loop().run_in_executor(None, self._read, log)

    async def write(self, log: Uuid, data: bytes) -> None:
        """Keep it instead of what was kept."""
        await asyncio.get_running_loop().run_in_executor(None, self._disk.replace_file, self._path(log), data)

    def _read(self, log: Uuid) -> bytes | None:
        self._disk.mkdir(self._folder)
        path = self._path(log)
        for name in self._disk.listdir(self._folder):
            if f"{self._folder}/{name}" != path:
                self._disk.unlink(f"{self._folder}/{name}")
        return self._disk.read_file(path) if self._disk.exists(path) else None

    def _path(self, log: Uuid) -> str:
        return f"{self._folder}/{log}.snapshot"


def segment_store(
    values: Values, threads: ThreadPoolExecutor, metrics: Metrics | None = None, bare: ObjectStore | None = None
) -> SegmentStore:
    """The store that the settings name; raises InvalidConfig."""
    url = values[tiered.KAVKA_REMOTE_STORAGE_URL]
    if url is None:
        raise InvalidConfig(f"{tiered.KAVKA_REMOTE_STORAGE_URL.name} is missing: it says where segments go")
    return open_segments(
        url,
        threads,
        options=dict(option.split("=", 1) for option in values[tiered.KAVKA_REMOTE_STORAGE_OPTIONS]),
        sealing=sealing_of(values),
        metrics=StoreMetrics(metrics) if metrics is not None else None,
        limits=StoreLimits(call_s=values[tiered.KAVKA_REMOTE_STORAGE_TIMEOUT_MS] / 1000),
        bare=bare,
    )


def sealing_of(values: Values) -> Sealing:
    """How new segments are stored; raises InvalidConfig if the file of keys cannot be used."""
    path = values[tiered.KAVKA_REMOTE_STORAGE_KEYS_FILE]
    compress = values[tiered.KAVKA_REMOTE_STORAGE_COMPRESSION]
    if path is None:
        return Sealing(compress)
    try:
        with open(path, encoding="utf-8") as file:
            return Sealing(compress, KeyRing.parse(file.read()))
    except OSError as error:
        name = tiered.KAVKA_REMOTE_STORAGE_KEYS_FILE.name
        raise InvalidConfig(f"{name}: {path}: {error.strerror}") from None


def opened(image: MetadataImage) -> Opened | None:
    """What the metadata says of `__remote_log_metadata`."""
    topic = image.topics.by_name.get(REMOTE_LOG_METADATA)
    return Opened(topic.id, len(topic.partitions)) if topic is not None else None


async def create_topic(topics: TopicCreation, values: Values) -> None:
    """Create `__remote_log_metadata`; raises CoordinatorNotAvailable if that is not possible now."""
    replicas = replication(topics.image, values, tiered.RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_REPLICATION_FACTOR)
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": str(values[tiered.RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_RETENTION_MS]),
        "remote.storage.enable": "false",
        "min.insync.replicas": str(min(replicas, values[tiered.RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_MIN_ISR])),
    }
    if replicas == 1:  # nobody else remembers what a power cut takes, and disks let go of what is said to be copied
        configs["flush.messages"] = "1"
    partitions = values[tiered.RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_NUM_PARTITIONS]
    await create(topics, NewTopic(REMOTE_LOG_METADATA, partitions, replicas, configs=configs))
