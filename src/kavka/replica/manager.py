"""The partitions that this node holds: found by name or id, created and removed as the metadata says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from kavka.kernels.layout import NodeEndpoint
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.cluster import BrokerRegistration
from kavka.metadata.image.configs import ConfigResource, ResourceType
from kavka.metadata.image.metadata import EMPTY, MetadataImage
from kavka.metadata.image.topics import TopicImage
from kavka.metadata.live import LiveSettings
from kavka.model.clock import Clock
from kavka.model.errors import (
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.settings import (
    CORDONED_LOG_DIRS,
    LEADER_REPLICATION_THROTTLED_RATE,
    REPLICA_LAG_TIME_MAX_MS,
    REPLICA_SELECTOR_CLASS,
    REPLICATION_QUOTA_WINDOW_NUM,
    REPLICATION_QUOTA_WINDOW_SIZE_SECONDS,
    Setting,
)
from kavka.model.settings.values import Values, topic_values
from kavka.model.types import TopicPartition, Uuid
from kavka.replica.checkpoints import Checkpoints
from kavka.replica.dirs import LogDir, choose, cordon
from kavka.replica.futures import Futures
from kavka.replica.partition import Partition
from kavka.replica.proposals import IsrProposals
from kavka.replica.removals import Removals
from kavka.replica.rules import TopicRules, topic_rules
from kavka.replica.tier import Tier, Tiers
from kavka.replica.traffic import Traffic
from kavka.replica.unified_log import UnifiedLog
from kavka.replication.isr import IsrChange
from kavka.replication.throttle import Throttle
from kavka.storage import files
from kavka.storage.disk import Disk
from kavka.storage.log import Log
from kavka.storage.segments import LogFiles

logger = logging.getLogger(__name__)

MAX_SHARED_RULES = 1_000
RACK_AWARE_SELECTOR = "RackAwareReplicaSelector"


class HostedTopic:
    """A topic with partitions here."""

    __slots__ = ("gone", "id", "name", "partitions", "rules")

    def __init__(self, name: str, topic_id: Uuid, rules: TopicRules) -> None:
        self.name = name
        self.id = topic_id
        self.rules = rules
        self.partitions: dict[int, Partition] = {}
        self.gone = Traffic()
        """Of partitions that were here: what a topic has counted does not become less."""


class ReplicaManager:
    """Every replica of this node."""

    def __init__(
        self,
        node_id: int,
        disk: Disk,
        dirs: list[LogDir],
        settings: LiveSettings,
        clock: Clock,
        new_name: Callable[[], str],
        tiers: Tiers | None = None,
    ) -> None:
        self.node_id = node_id
        self.disk = disk
        self.dirs = dirs
        self._settings = settings
        self.image: MetadataImage = EMPTY
        self.losses = 0
        """How often a directory went offline."""
        self._on_loss: list[Callable[[], None]] = []
        self.checkpoints = Checkpoints(disk, dirs, self.logs_in)
        self.futures = Futures(self, new_name)
        self.removals = Removals()
        self.proposals = IsrProposals()
        self.monotonic_ms = clock.monotonic_ms
        values = settings.values
        self.max_lag_ms = values[REPLICA_LAG_TIME_MAX_MS]
        self.leader_throttle = throttle(values, LEADER_REPLICATION_THROTTLED_RATE)
        selector = values[REPLICA_SELECTOR_CLASS]
        self.selects_replicas = selector is not None and selector.endswith(RACK_AWARE_SELECTOR)
        self._clock = clock
        self._new_name = new_name
        self._tiers = tiers
        self._by_name: dict[str, HostedTopic] = {}
        self._by_id: dict[Uuid, HostedTopic] = {}
        self._dir_of: dict[TopicPartition, LogDir] = {}
        self._unusable: dict[TopicPartition, KafkaStorageError] = {}
        self._shared_rules: dict[tuple[tuple[str, str], ...], TopicRules] = {}
        self.checks_schemas = False
        """Whether any topic here has, or had, records whose schemas have to be registered."""
        self.gone = Traffic()
        """Of topics that were here."""

    @property
    def values(self) -> Values:
        """The settings of this node that are in force."""
        return self._settings.values

    # -- finding --------------------------------------------------------------------------

    def find(self, topic: str | Uuid, index: int) -> Partition:
        """A partition held here; the error says whether it exists at all."""
        hosted = self._by_name.get(topic) if type(topic) is str else self._by_id.get(topic)  # type: ignore[arg-type]
        partition = hosted.partitions.get(index) if hosted is not None else None
        if partition is None:
            raise self._missing(topic, index)
        return partition

    def held(self, topic: str | Uuid, index: int) -> Partition | None:
        """A partition if it is held here."""
        hosted = self._by_name.get(topic) if type(topic) is str else self._by_id.get(topic)  # type: ignore[arg-type]
        return hosted.partitions.get(index) if hosted is not None else None

    def leader_of(self, topic: str | Uuid, index: int) -> tuple[int, int] | None:
        """Who leads a partition, and its leader epoch, as far as the metadata says."""
        topics = self.image.topics
        known = topics.by_id.get(topic) if isinstance(topic, Uuid) else topics.by_name.get(topic)
        partition = known.partitions.get(index) if known is not None else None
        return (partition.leader, partition.leader_epoch) if partition is not None else None

    def endpoints(self, leaders: Iterable[int], listener: str) -> list[NodeEndpoint]:
        """Where brokers in service are reached by who came through a listener (KIP-951)."""
        found: list[NodeEndpoint] = []
        for leader in dict.fromkeys(leaders):
            broker = self.brokers.get(leader)
            endpoint = broker.endpoint(listener) if broker is not None and not broker.fenced else None
            if broker is not None and endpoint is not None:
                found.append((leader, endpoint.host, endpoint.port, broker.rack))
        return found

    def _missing(self, topic: str | Uuid, index: int) -> KafkaError:
        topics = self.image.topics
        known = topics.by_id.get(topic) if isinstance(topic, Uuid) else topics.by_name.get(topic)
        if known is None and isinstance(topic, Uuid):
            return UnknownTopicId(f"no topic has id {topic!s}")
        if known is None or index not in known.partitions:
            return UnknownTopicOrPartition(f"there is no partition {topic!s}-{index}")
        tp = TopicPartition(known.name, index)
        if tp in self._unusable:
            return self._unusable[tp]
        directory = self._dir_of.get(tp)
        if directory is not None and not directory.online:
            return KafkaStorageError(f"{tp} lies in an offline log directory")
        return NotLeaderOrFollower(f"{tp} is not held by node {self.node_id}")

    def __iter__(self) -> Iterator[Partition]:
        for topic in list(self._by_name.values()):
            yield from list(topic.partitions.values())

    @property
    def topics(self) -> Iterable[HostedTopic]:
        """The topics that have partitions here."""
        return list(self._by_name.values())

    @property
    def offline_replicas(self) -> int:
        """How many replicas of this node cannot be used: their log, or its directory, has failed."""
        return len(self._unusable) + sum(not directory.online for directory in self._dir_of.values())

    def __len__(self) -> int:
        return sum(len(topic.partitions) for topic in self._by_name.values())

    def directory_of(self, partition: Partition) -> LogDir:
        """Where a partition's log lies."""
        return self._dir_of[partition.topic_partition]

    def announced(self, partition: Partition) -> LogDir:
        """Where the controller is to think that a partition's log lies: while it is moved, that is told beforehand."""
        future = self.futures.of(partition.topic_partition)
        return future.directory if future is not None and future.promised else self.directory_of(partition)

    def partitions_in(self, directory: LogDir) -> Iterator[Partition]:
        """The partitions whose log lies in a directory."""
        return (partition for partition in self if self._dir_of[partition.topic_partition] is directory)

    def logs_in(self, directory: LogDir) -> Iterator[UnifiedLog]:
        """Everything that lies in a directory: partitions, and those that are about to."""
        yield from self.partitions_in(directory)
        yield from self.futures.in_directory(directory)

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """The brokers by what the metadata says of them."""
        return self.image.cluster.brokers

    def propose(self, partition: Partition, change: IsrChange) -> None:
        """Ask the controller for other in-sync replicas; an earlier wish is overtaken."""
        self.proposals.add(partition, change)

    def replicated(self, topic: str | Uuid, index: int, size: int) -> None:
        """So many bytes of a partition go to a follower."""
        partition = self.held(topic, index) if size else None
        if partition is None:
            return
        partition.traffic.replication_out_bytes += size
        if partition.leader_throttled:
            self.leader_throttle.record(size, self.monotonic_ms())

    def given(self, topic: str | Uuid, index: int, size: int, *, failed: bool) -> None:
        """A consumer is answered about a partition."""
        partition = self.held(topic, index)
        if partition is not None:
            traffic = partition.traffic
            traffic.fetch_requests += 1
            traffic.failed_fetch_requests += failed
            traffic.out_bytes += size

    # -- following the metadata -------------------------------------------------------------

    def begin(self, image: MetadataImage) -> None:
        """Take over the metadata that this node starts with, before anything is loaded."""
        self.image = image
        self._follow_node_config()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, one partition or resource at a time."""
        self.image = image
        for work in self._tasks(image, delta):
            try:
                work()
            except KafkaStorageError as error:
                logger.error("%s", error)
            except Exception:  # one partition's fault: the others follow the metadata all the same
                logger.exception("applying a metadata change to a partition failed")
            yield

    def _tasks(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[Callable[[], None]]:
        for topic in delta.deleted_topics.values():
            yield partial(self._remove_topic, topic)  # before its configuration, which goes with it
        for resource in delta.configs:
            yield partial(self._reconfigure, resource)
        for topic in delta.created_topics.values():
            yield from self._updates(topic, topic.partitions)
        for topic_id, indexes in delta.changed_partitions.items():
            yield from self._updates(image.topics.by_id[topic_id], indexes)
        if delta.brokers:
            yield from (partition.reconsider for partition in self if partition.leadership is not None)

    def _updates(self, topic: TopicImage, indexes: Iterable[int]) -> Iterator[Callable[[], None]]:
        for index in sorted(indexes):
            if self.node_id in topic.partitions[index].replicas:
                yield partial(self.update, topic, index)
            else:
                yield partial(self._remove_partition, topic, index)

    def update(self, topic: TopicImage, index: int) -> None:
        """Create a partition if it is not here, and give it its leadership."""
        hosted = self._host(topic)
        partition = hosted.partitions.get(index)
        if partition is None:
            tp = TopicPartition(topic.name, index)
            if tp in self._unusable:
                raise self._unusable[tp]
            lost = self._dir_of.get(tp)
            if lost is not None and not lost.online:
                raise KafkaStorageError(f"{tp} lies in an offline log directory")
            directory = self._directory_for(topic, index)
            try:
                new = self._create(tp, hosted, directory)
            except KafkaStorageError as error:
                directory.to_recover = True  # half a log may be there
                self.give_up(tp, error)
                raise
            partition = self._add(hosted, index, new, directory)
        partition.follow(topic.partitions[index])

    def _create(self, tp: TopicPartition, hosted: HostedTopic, directory: LogDir) -> Log:
        path = f"{directory.path}/{tp}"
        try:
            self.checkpoints.forget(directory, tp)
            if self.disk.exists(path):
                # A topic of this name was deleted, but its directory could not be renamed then.
                stray = files.marked_dir_name(tp, self._new_name(), files.STRAY_DIR)
                logger.warning("%s belongs to a deleted topic: renamed to stray %s", path, stray)
                self.disk.rename(path, f"{directory.path}/{stray}")
        except OSError as error:
            raise KafkaStorageError(f"cannot make room for {path}: {error}") from error
        return Log.create(self.disk, path, tp, hosted.id, hosted.rules.log, self._clock.now_ms())

    def adopt(self, topic: TopicImage, index: int, loaded: Log, directory: LogDir, high_watermark: int = 0) -> None:
        """Take in a log that was found on disk, with what was known to be committed of it."""
        hosted = self._host(topic)
        loaded.config = hosted.rules.log
        self._add(hosted, index, loaded, directory, high_watermark).follow(topic.partitions[index])

    def give_up(self, tp: TopicPartition, error: KafkaStorageError) -> None:
        """Leave alone a log that cannot be loaded or created: nothing is created over what is on disk."""
        self._unusable[tp] = error

    def usable(self, tp: TopicPartition) -> bool:
        """Whether the partition may be created here."""
        return tp not in self._unusable

    def rules_of(self, topic: str) -> TopicRules:
        """What a topic's configuration means here."""
        overrides: Mapping[str, str] = self.image.configs.of_topic(topic)
        key = tuple(sorted(overrides.items()))
        rules = self._shared_rules.get(key)
        if rules is None:
            if len(self._shared_rules) >= MAX_SHARED_RULES:
                self._shared_rules.clear()
            rules = self._shared_rules[key] = topic_rules(topic_values(overrides, self.values), self.values)
            self.checks_schemas |= rules.produce.schemas is not None
        return rules

    def tiered(self, topic: TopicImage, index: int) -> bool:
        """Whether a partition's log may begin in tiered storage."""
        return self._tier_of(topic.id, TopicPartition(topic.name, index), self.rules_of(topic.name)) is not None

    def _tier_of(self, topic_id: Uuid, tp: TopicPartition, rules: TopicRules) -> Tier | None:
        return self._tiers.tier_of(topic_id, tp, rules) if rules.tiered and self._tiers is not None else None

    def _directory_for(self, topic: TopicImage, index: int) -> LogDir:
        preferred = self.futures.preferred(TopicPartition(topic.name, index))
        if preferred is not None:
            return preferred
        wanted = topic.partitions[index].directory(self.node_id)
        for directory in self.dirs:
            if directory.directory_id == wanted:
                if not directory.online:
                    raise KafkaStorageError(f"{topic.name}-{index} lies in an offline log directory")
                return directory
        chosen = choose(self.dirs)
        if chosen is None:
            raise KafkaStorageError(f"no log directory is online for {topic.name}-{index}")
        return chosen

    def _host(self, topic: TopicImage) -> HostedTopic:
        hosted = self._by_id.get(topic.id)
        if hosted is None:
            hosted = HostedTopic(topic.name, topic.id, self.rules_of(topic.name))
            self._by_id[topic.id] = self._by_name[topic.name] = hosted
        return hosted

    def _add(self, hosted: HostedTopic, index: int, new: Log, directory: LogDir, high_watermark: int = 0) -> Partition:
        partition = Partition(self, new.topic_partition, hosted.id, new, hosted.rules, high_watermark)
        partition.tier = self._tier_of(hosted.id, new.topic_partition, hosted.rules)
        self.watch(new)
        hosted.partitions[index] = partition
        directory.replicas += 1
        self._dir_of[new.topic_partition] = directory
        return partition

    def _remove_topic(self, topic: TopicImage) -> None:
        hosted = self._by_id.pop(topic.id, None)
        for index in topic.partitions:
            self._forget_lost(TopicPartition(topic.name, index))
        if hosted is None:
            return
        if self._by_name.get(topic.name) is hosted:
            del self._by_name[topic.name]
        for partition in hosted.partitions.values():
            self._delete(partition)
            hosted.gone.add(partition.traffic)
        self.gone.add(hosted.gone)

    def _remove_partition(self, topic: TopicImage, index: int) -> None:
        """The partition has moved to other nodes."""
        self._forget_lost(TopicPartition(topic.name, index))
        hosted = self._by_id.get(topic.id)
        partition = hosted.partitions.pop(index, None) if hosted is not None else None
        if hosted is None or partition is None:
            return
        logger.info("%s: replica removed from this broker", partition.topic_partition)
        self._delete(partition)
        hosted.gone.add(partition.traffic)
        if not hosted.partitions:
            del self._by_id[topic.id], self._by_name[topic.name]
            self.gone.add(hosted.gone)

    def _forget_lost(self, tp: TopicPartition) -> None:
        """What cannot be reached of a partition that is gone does not stand in another's way."""
        self._unusable.pop(tp, None)
        directory = self._dir_of.get(tp)
        if directory is not None and not directory.online:
            del self._dir_of[tp]

    def take_offline(self, directory: LogDir, why: object) -> None:
        """Give up a directory that failed, and all that lies in it, until the node restarts."""
        held = list(self.partitions_in(directory))
        self.futures.abandon(directory)
        directory.fail(why)
        for partition in held:
            tp = partition.topic_partition
            hosted = self._by_id[partition.topic_id]
            del hosted.partitions[tp.partition]
            self.proposals.drop(partition)
            partition.count_messages()
            hosted.gone.add(partition.traffic)
            partition.log.abandon(f"{tp} lies in an offline log directory")
        self.losses += 1
        for partition in held:  # none of them can be used any more, whatever those do who are told now
            try:
                partition.close()
            except Exception:
                logger.exception("%s: telling of its end failed", partition.topic_partition)
        for told in self._on_loss:
            told()

    def on_loss(self, told: Callable[[], None]) -> None:
        """Tell whenever a directory has gone offline."""
        self._on_loss.append(told)

    def lost(self) -> Iterator[tuple[TopicPartition, LogDir]]:
        """The replicas that lie in offline directories."""
        return ((tp, directory) for tp, directory in list(self._dir_of.items()) if not directory.online)

    def watch(self, log: Log) -> None:
        """Hear at once what the disk refuses to a log of this node."""
        log.on_disk_error = self._disk_refused

    def _disk_refused(self, log: LogFiles, why: str) -> None:
        """Let nothing more be written to the directory of a log, if other directories or nodes can stand in for it.

        Not even the next request: it would be refused for a gap in its producer's sequence, and the producer would
        number anew what another replica has already.
        """
        directory = next(each for each in self.dirs if each.path == log.path.rpartition("/")[0])
        directory.disk_error = why
        self.check_dirs()

    def check_dirs(self) -> None:
        """Give up the directories whose disk refused something, if other directories or nodes can stand in for them."""
        for directory in self.dirs:
            why, directory.disk_error = directory.disk_error, None
            if directory.online and why is not None and self._expendable(directory):
                self.take_offline(directory, why)

    def _expendable(self, directory: LogDir) -> bool:
        if len(self.brokers) > 1:
            return True
        return not directory.has_metadata and any(other.online for other in self.dirs if other is not directory)

    def _delete(self, partition: Partition) -> None:
        partition.close()
        self.proposals.drop(partition)
        future = self.futures.of(partition.topic_partition)
        if future is not None:
            self.futures.drop(future, "it is deleted")
        directory = self._dir_of.pop(partition.topic_partition, None)
        if directory is not None:
            directory.replicas -= 1
        self.delete_log(partition.log)

    def delete_log(self, log: Log) -> None:
        """Take a log out of use; its files go after the delay for that."""
        try:
            log.mark_deleted(self._new_name())
        except KafkaStorageError as error:
            logger.error("%s", error)  # the next start finds a log without a topic
        else:
            self.removals.add(log, self._clock.now_ms() + log.config.file_delete_delay_ms)

    def moved(self, partition: Partition, directory: LogDir) -> None:
        """A partition's log lies in another directory now."""
        self.directory_of(partition).replicas -= 1
        directory.replicas += 1
        self._dir_of[partition.topic_partition] = directory

    # -- configuration ----------------------------------------------------------------------

    def _reconfigure(self, resource: ConfigResource) -> None:
        """Take over a changed topic configuration, or changed defaults for all topics."""
        if resource.type == ResourceType.TOPIC:
            hosted = self._by_name.get(resource.name)
            if hosted is not None:
                self._give_rules(hosted)
        elif resource.type == ResourceType.BROKER and resource.name in ("", str(self.node_id)):
            self._follow_node_config()
            for hosted in self._by_name.values():
                self._give_rules(hosted)

    def _follow_node_config(self) -> None:
        """Take over the dynamic configuration of this node."""
        self._shared_rules.clear()
        cordon(self.dirs, self.values[CORDONED_LOG_DIRS])
        self.max_lag_ms = self.values[REPLICA_LAG_TIME_MAX_MS]
        self.leader_throttle.rate = self.values[LEADER_REPLICATION_THROTTLED_RATE]

    def _give_rules(self, hosted: HostedTopic) -> None:
        rules = hosted.rules = self.rules_of(hosted.name)
        for partition in list(hosted.partitions.values()):
            partition.give_rules(rules, self._tier_of(hosted.id, partition.topic_partition, rules))
            partition.reconsider()
            future = self.futures.of(partition.topic_partition)
            if future is not None:
                future.log.config = rules.log


def throttle(values: Values, rate: Setting[int]) -> Throttle:
    """A limit on replication by its setting."""
    windows, seconds = values[REPLICATION_QUOTA_WINDOW_NUM], values[REPLICATION_QUOTA_WINDOW_SIZE_SECONDS]
    return Throttle(values[rate], windows, seconds * 1000)
