"""Starting with what is on disk: every log of every directory, and what the metadata says should be there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kavka.metadata.image.metadata import MetadataImage
from kavka.metadata.image.topics import TopicImage
from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.clock import Clock
from kavka.model.errors import KafkaStorageError
from kavka.model.types import TopicPartition, Uuid
from kavka.replica.dirs import LogDir
from kavka.replica.manager import SLICE_SECONDS, ReplicaManager
from kavka.storage import files
from kavka.storage.dirs import read_partition_metadata
from kavka.storage.disk import Disk
from kavka.storage.loader import LoadReport, load_log
from kavka.storage.log import Log

log = logging.getLogger(__name__)


class TwiceError(KafkaStorageError, code=KafkaStorageError.code):
    """Two directories hold a log of the same name: as in Kafka, the node does not start."""


class Loading:
    """Loads the replicas of a node once, in slices, so that the node can be stopped meanwhile."""

    def __init__(
        self,
        replicas: ReplicaManager,
        disk: Disk,
        clock: Clock,
        new_name: Callable[[], str],
    ) -> None:
        self._replicas = replicas
        self._checkpoints = replicas.checkpoints
        self._disk = disk
        self._clock = clock
        self._new_name = new_name
        self._turn_ends = 0.0

    async def run(self, image: MetadataImage, stopping: asyncio.Event) -> bool:
        """Load what is on disk, set aside what no topic owns, and create what is missing; False if told to stop."""
        self._replicas.begin(image)
        found: dict[TopicPartition, str] = {}
        for directory in self._replicas.dirs:
            try:
                await self._load_dir(directory, found, stopping)
            except OSError as error:
                directory.fail(error)
            if stopping.is_set():
                return False  # before anything is taken for missing
        for topic in image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                if self._replicas.node_id in partition.replicas and self._replicas.held(topic.id, index) is None:
                    self._create(topic, index)
                    await self._breathe()
        return True

    async def _load_dir(self, directory: LogDir, found: dict[TopicPartition, str], stopping: asyncio.Event) -> None:
        root = directory.path
        recovery_points = self._checkpoints.read(directory, files.RECOVERY_POINTS)
        log_starts = self._checkpoints.read(directory, files.LOG_STARTS)
        committed = self._checkpoints.read(directory, files.HIGH_WATERMARKS)
        for name in self._disk.listdir(root):
            parsed = files.parse_dir_name(name)
            if parsed is None or parsed.topic_partition.topic == CLUSTER_METADATA:
                continue
            path = f"{root}/{name}"
            if parsed.mark:
                if parsed.mark in (files.DELETE_DIR, files.STRAY_DIR):
                    self._replicas.removals.add_leftover(path)
                continue
            tp = parsed.topic_partition
            if tp in found:
                raise TwiceError(f"{tp} is in {found[tp]} and in {root}: which of them is right, nobody can tell")
            found[tp] = root
            try:
                loaded = self._load(directory, path, tp, recovery_points.get(tp, 0), log_starts.get(tp, 0))
                if loaded is not None:
                    topic = self._replicas.image.topics.by_name[tp.topic]
                    self._replicas.adopt(topic, tp.partition, loaded, directory, committed.get(tp, 0))
            except KafkaStorageError as error:
                log.error("%s; %s stays offline", error, tp)
                self._checkpoints.keep(directory, tp)
                self._replicas.give_up(tp, error)
            await self._breathe()
            if stopping.is_set():
                return

    def _create(self, topic: TopicImage, index: int) -> None:
        """Create a partition that is nowhere on disk; one that is there but could not be loaded stays as it is."""
        tp = TopicPartition(topic.name, index)
        if not self._replicas.usable(tp):
            return
        lost = [directory.path for directory in self._replicas.dirs if not directory.online]
        try:
            if lost:
                raise KafkaStorageError(f"the log may lie in {', '.join(lost)}, which is offline")
            self._replicas.update(topic, index)
        except KafkaStorageError as error:
            log.error("%s; %s stays offline", error, tp)
            self._replicas.give_up(tp, error)

    def _topic_id(self, directory: LogDir, path: str) -> Uuid | None:
        """Whose log this is; after an unclean stop the file that says so may be torn, and then the name decides."""
        try:
            return read_partition_metadata(self._disk, path)
        except KafkaStorageError:
            if directory.clean:
                raise
            return None

    def _load(
        self, directory: LogDir, path: str, tp: TopicPartition, recovery_point: int, log_start: int
    ) -> Log | None:
        """Load a log, or set it aside if it is not of a partition that belongs here."""
        topic = self._replicas.image.topics.by_name.get(tp.topic)
        topic_id = self._topic_id(directory, path)
        image = topic.partitions.get(tp.partition) if topic is not None else None
        ours = image is not None and self._replicas.node_id in image.replicas
        if topic is None or not ours or topic_id not in (None, topic.id):
            stray = files.marked_dir_name(tp, self._new_name(), files.STRAY_DIR)
            log.warning("%s belongs to no topic of the cluster: set aside as %s", path, stray)
            try:
                self._disk.rename(path, f"{directory.path}/{stray}")
            except OSError as error:
                raise KafkaStorageError(f"cannot set aside {path}: {error}") from error
            return None
        loaded, report = load_log(
            self._disk,
            path,
            tp,
            self._replicas.rules_of(tp.topic).log,
            clean=directory.clean,
            recovery_point=recovery_point,
            log_start_offset=log_start,
            now_ms=self._clock.now_ms(),
            tiered=self._replicas.tiered(topic, tp.partition),
        )
        tell(tp, report)
        if directory.clean and loaded.log_end_offset < recovery_point:
            self._lacks(path, loaded, recovery_point, alone=image is not None and len(image.replicas) == 1)
        if topic_id is None:
            loaded.assign_topic_id(topic.id)
        return loaded

    def _lacks(self, path: str, loaded: Log, recovery_point: int, *, alone: bool) -> None:
        """A log lacks what it had when the node was stopped in order: what nobody else has is not given up unasked."""
        found = loaded.log_end_offset
        lost = f"{path} ends at offset {found}, but ended at {recovery_point} when the node was last stopped"
        if not alone:
            log.warning("%s: what is missing is fetched from the other replicas", lost)
            return
        loaded.close(sync=False)
        raise KafkaStorageError(f"{lost}: restore it from a copy, or start once with --accept-loss to give it up")

    async def _breathe(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = loop.time() + SLICE_SECONDS


def tell(tp: TopicPartition, report: LoadReport) -> None:
    """Say what recovery changed."""
    if report.cut_bytes or report.removed_segments:
        log.warning("%s: recovery cut %d bytes and %d segments", tp, report.cut_bytes, report.removed_segments)
    for note in report.notes:
        log.warning("%s: %s", tp, note)
