"""Starting with what is on disk: every log of every directory, and what the metadata says should be there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.metadata.image.metadata import MetadataImage
from kavka.metadata.image.topics import TopicImage
from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.clock import Clock
from kavka.model.errors import InvalidConfig, KafkaStorageError
from kavka.model.settings.tiered import REMOTE_LOG_STORAGE_SYSTEM_ENABLE
from kavka.model.settings.topic import TOPIC_REMOTE_STORAGE_ENABLE
from kavka.model.types import TopicPartition, Uuid
from kavka.pacing.turn import Turn
from kavka.replica.checkpoints import Offsets
from kavka.replica.dirs import LogDir
from kavka.replica.futures import FutureReplica
from kavka.replica.manager import ReplicaManager
from kavka.storage import files
from kavka.storage.dirs import read_partition_metadata
from kavka.storage.disk import Disk
from kavka.storage.loader import LoadReport, load_log
from kavka.storage.log import Log

logger = logging.getLogger(__name__)

CHARACTER_BITS: Final = 6
"""What one character of a printed id stands for."""


Names = dict[str, files.DirName]
"""What lies in a log directory, by the names of the directories there."""


class Checkpointed(NamedTuple):
    """What the checkpoints of a directory say of its logs."""

    recovery_points: Offsets
    log_starts: Offsets
    committed: Offsets


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

    async def run(self, image: MetadataImage, stopping: asyncio.Event) -> bool:
        """Load what is on disk, set aside what no topic owns, and create what is missing; False if told to stop."""
        self._replicas.begin(image)
        self._require_tiered_storage(image)
        turn = Turn()
        found = {directory: self._list(directory) for directory in self._replicas.dirs if directory.online}
        self._settle_twins(found)
        for directory, names in found.items():
            try:
                if directory.online:
                    await self._load_dir(directory, names, stopping, turn)
            except OSError as error:
                self._replicas.take_offline(directory, error)
            if stopping.is_set():
                return False  # before anything is taken for missing
        await FutureLoading(self, self._replicas, self._disk).run(found, turn)
        for topic in image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                if self._replicas.node_id in partition.replicas and self._replicas.held(topic.id, index) is None:
                    self._create(topic, index)
                    await turn.breathe()
        return True

    def _require_tiered_storage(self, image: MetadataImage) -> None:
        """As in Kafka, a node without tiered storage does not start with topics that have records there.

        It would take the first offset on its disk for the log start, and all that is before would be deleted.
        """
        if self._replicas.values[REMOTE_LOG_STORAGE_SYSTEM_ENABLE]:
            return
        for topic in image.topics.by_id.values():
            here = any(self._replicas.node_id in partition.replicas for partition in topic.partitions.values())
            if here and image.configs.of_topic(topic.name).get(TOPIC_REMOTE_STORAGE_ENABLE.name) == "true":
                raise InvalidConfig(
                    f"topic {topic.name} has {TOPIC_REMOTE_STORAGE_ENABLE.name}=true: tiered storage "
                    f"({REMOTE_LOG_STORAGE_SYSTEM_ENABLE.name}) cannot be disabled before all such topics are deleted"
                )

    def _list(self, directory: LogDir) -> Names:
        """What lies in a directory, by its name; nothing if it cannot be read, and then it is offline."""
        try:
            parsed = {name: files.parse_dir_name(name) for name in self._disk.listdir(directory.path)}
        except OSError as error:
            self._replicas.take_offline(directory, error)
            return {}
        return {
            name: dir_name
            for name, dir_name in parsed.items()
            if dir_name is not None and dir_name.topic_partition.topic != CLUSTER_METADATA
        }

    def _settle_twins(self, found: dict[LogDir, Names]) -> None:
        """Of two logs of a partition, left by a crash amid a move, the one is right that the metadata knows of."""
        seen: dict[TopicPartition, LogDir] = {}
        for directory, names in found.items():
            for name, (tp, mark) in list(names.items()):
                if mark:
                    continue
                twin = seen.setdefault(tp, directory)
                if twin is directory:
                    continue
                known = self._known_directory(tp)
                if known not in (twin.directory_id, directory.directory_id):
                    raise TwiceError(
                        f"{tp} is in {twin.path} and in {directory.path}: which of them is right, nobody can tell"
                    )
                stale = twin if known == directory.directory_id else directory
                seen[tp] = directory if stale is twin else twin
                self._set_aside(stale, name, tp)
                del found[stale][name]

    def _known_directory(self, tp: TopicPartition) -> Uuid | None:
        topic = self._replicas.image.topics.by_name.get(tp.topic)
        partition = topic.partitions.get(tp.partition) if topic is not None else None
        return partition.directory(self._replicas.node_id) if partition is not None else None

    def _set_aside(self, directory: LogDir, name: str, tp: TopicPartition) -> None:
        stray = files.marked_dir_name(tp, self._new_name(), files.STRAY_DIR)
        logger.warning("%s/%s: the log lies in another directory now, renamed to %s", directory.path, name, stray)
        try:
            self._disk.rename(f"{directory.path}/{name}", f"{directory.path}/{stray}")
        except OSError as error:
            self._replicas.take_offline(directory, error)

    async def _load_dir(self, directory: LogDir, names: Names, stopping: asyncio.Event, turn: Turn) -> None:
        checkpoints = self.read_checkpoints(directory)
        for name, (tp, mark) in names.items():
            if mark:
                if mark in (files.DELETE_DIR, files.STRAY_DIR):
                    self._replicas.removals.add_leftover(f"{directory.path}/{name}")
                continue
            self.load_partition(directory, name, tp, checkpoints)
            await turn.breathe()
            if stopping.is_set():
                return

    def read_checkpoints(self, directory: LogDir) -> Checkpointed:
        """What is written of the logs of a directory."""
        read = self._checkpoints.read
        return Checkpointed(
            *(read(directory, kind) for kind in (files.RECOVERY_POINTS, files.LOG_STARTS, files.HIGH_WATERMARKS))
        )

    def load_partition(self, directory: LogDir, name: str, tp: TopicPartition, checkpoints: Checkpointed) -> None:
        """Load a log that lies under its own name, or leave the partition offline."""
        try:
            loaded = self._load(directory, f"{directory.path}/{name}", tp, checkpoints)
            if loaded is not None:
                topic = self._replicas.image.topics.by_name[tp.topic]
                self._replicas.adopt(topic, tp.partition, loaded, directory, checkpoints.committed.get(tp, 0))
        except KafkaStorageError as error:
            logger.error("%s; replica %s is offline", error, tp)
            directory.to_recover |= not directory.clean
            self._checkpoints.keep(directory, tp)
            self._replicas.give_up(tp, error)

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
            logger.error("%s; replica %s is offline", error, tp)
            self._replicas.give_up(tp, error)

    def topic_id_of(self, directory: LogDir, path: str) -> Uuid | None:
        """Whose log this is; after an unclean stop the file that says so may be torn, and then the name decides."""
        try:
            return read_partition_metadata(self._disk, path)
        except KafkaStorageError:
            if directory.clean:
                raise
            return None

    def _load(self, directory: LogDir, path: str, tp: TopicPartition, checkpoints: Checkpointed) -> Log | None:
        """Load a log, or set it aside if it is not of a partition that belongs here."""
        topic = self._replicas.image.topics.by_name.get(tp.topic)
        topic_id = self.topic_id_of(directory, path)
        image = topic.partitions.get(tp.partition) if topic is not None else None
        ours = image is not None and self._replicas.node_id in image.replicas
        if topic is not None and topic_id is not None and nearly(topic_id, topic.id):
            raise KafkaStorageError(
                f"{path}/partition.metadata is damaged: it names {topic_id}, and {tp.topic} has the id {topic.id}. "
                "Remove that file, and the log is taken for that topic's again"
            )
        if topic is None or not ours or topic_id not in (None, topic.id):
            stray = files.marked_dir_name(tp, self._new_name(), files.STRAY_DIR)
            logger.warning("%s belongs to no topic of the cluster: renamed to stray %s", path, stray)
            try:
                self._disk.rename(path, f"{directory.path}/{stray}")
            except OSError as error:
                raise KafkaStorageError(f"cannot set aside {path}: {error}") from error
            return None
        loaded = self.load_log(directory, path, topic, tp, checkpoints)
        recovery_point = checkpoints.recovery_points.get(tp, 0)
        if directory.clean and loaded.log_end_offset < recovery_point:
            self._lacks(path, loaded, recovery_point, alone=image is not None and len(image.replicas) == 1)
        if topic_id is None:
            loaded.assign_topic_id(topic.id)
        return loaded

    def load_log(
        self, directory: LogDir, path: str, topic: TopicImage, tp: TopicPartition, checkpoints: Checkpointed
    ) -> Log:
        """Load what is known to be a log of a partition; raises KafkaStorageError."""
        loaded, report = load_log(
            self._disk,
            path,
            tp,
            self._replicas.rules_of(tp.topic).log,
            clean=directory.clean,
            recovery_point=checkpoints.recovery_points.get(tp, 0),
            log_start_offset=checkpoints.log_starts.get(tp, 0),
            now_ms=self._clock.now_ms(),
            tiered=self._replicas.tiered(topic, tp.partition),
        )
        tell(tp, report)
        return loaded

    def _lacks(self, path: str, loaded: Log, recovery_point: int, *, alone: bool) -> None:
        """A log lacks what it had when the node was stopped in order: what nobody else has is not given up unasked."""
        found = loaded.log_end_offset
        lost = f"{path} ends at offset {found}, but ended at {recovery_point} when the node was last stopped"
        if not alone:
            logger.warning("%s: what is missing is fetched from the other replicas", lost)
            return
        loaded.close(sync=False)
        raise KafkaStorageError(f"{lost}: restore it from a copy, or start once with --accept-loss to give it up")


def nearly(topic_id: Uuid, other: Uuid) -> bool:
    """Whether two ids differ as the damage of one character makes them, and never two ids that were drawn."""
    differ = (int.from_bytes(topic_id) ^ int.from_bytes(other)).bit_count()
    return 0 < differ <= CHARACTER_BITS


class FutureLoading:
    """Goes on with moves between directories that a stop has interrupted."""

    def __init__(self, loading: Loading, replicas: ReplicaManager, disk: Disk) -> None:
        self._loading = loading
        self._replicas = replicas
        self._disk = disk

    async def run(self, found: dict[LogDir, Names], turn: Turn) -> None:
        """Look at every future log, once all current ones are loaded."""
        for directory, names in found.items():
            for name, (tp, mark) in names.items():
                if mark == files.FUTURE_DIR and directory.online:
                    try:
                        self._settle(directory, name, tp)
                    except KafkaStorageError as error:
                        directory.to_recover |= not directory.clean
                        logger.error("%s; its move begins anew when it is asked for", error)
                    except OSError as error:
                        self._replicas.take_offline(directory, error)
                    await turn.breathe()

    def _settle(self, directory: LogDir, name: str, tp: TopicPartition) -> None:
        replicas, path = self._replicas, f"{directory.path}/{name}"
        topic = replicas.image.topics.by_name.get(tp.topic)
        image = topic.partitions.get(tp.partition) if topic is not None else None
        ours = image is not None and replicas.node_id in image.replicas
        held = replicas.held(*tp)
        useless = held is not None and (replicas.directory_of(held) is directory or replicas.futures.of(tp) is not None)
        if topic is None or image is None or not ours or useless or self._foreign(directory, path, topic):
            replicas.removals.add_leftover(path)
        elif held is not None:
            log = self._loading.load_log(directory, path, topic, tp, self._loading.read_checkpoints(directory))
            logger.info("%s: the move to %s goes on at offset %d", tp, directory.path, log.log_end_offset)
            replicas.futures.add(FutureReplica(held, log, directory))
        elif replicas.usable(tp):
            whole = all(other.online for other in replicas.dirs)  # else the current log may lie in an offline one
            if whole or image.directory(replicas.node_id) == directory.directory_id:
                logger.warning("%s: the log that it was moved from is gone: %s takes its place", tp, path)
                self._disk.rename(path, f"{directory.path}/{tp}")
                self._loading.load_partition(directory, str(tp), tp, self._loading.read_checkpoints(directory))

    def _foreign(self, directory: LogDir, path: str, topic: TopicImage) -> bool:
        return self._loading.topic_id_of(directory, path) not in (None, topic.id)


def tell(tp: TopicPartition, report: LoadReport) -> None:
    """Say what recovery changed."""
    if report.cut_bytes or report.removed_segments:
        logger.warning(
            "%s: log recovery truncated %d bytes and deleted %d segments", tp, report.cut_bytes, report.removed_segments
        )
    for note in report.notes:
        logger.warning("%s: %s", tp, note)
