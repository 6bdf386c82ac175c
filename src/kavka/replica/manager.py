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
from kavka.replica.dirs import LogDir, choose
from kavka.replica.partition import Partition
from kavka.replica.proposals import IsrProposals
from kavka.replica.removals import Removals
from kavka.replica.rules import TopicRules, topic_rules
from kavka.replica.tier import Tier, Tiers
from kavka.replication.isr import IsrChange
from kavka.replication.throttle import Throttle
from kavka.storage import files
from kavka.storage.disk import Disk
from kavka.storage.log import Log

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.008
MAX_SHARED_RULES = 1_000
RACK_AWARE_SELECTOR = "RackAwareReplicaSelector"


class HostedTopic:
    """A topic with partitions here."""

    __slots__ = ("id", "name", "partitions", "rules")

    def __init__(self, name: str, topic_id: Uuid, rules: TopicRules) -> None:
        self.name = name
        self.id = topic_id
        self.rules = rules
        self.partitions: dict[int, Partition] = {}


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
        self.checkpoints = Checkpoints(disk, dirs, self.partitions_in)
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

    def __len__(self) -> int:
        return sum(len(topic.partitions) for topic in self._by_name.values())

    def directory_of(self, partition: Partition) -> LogDir:
        """Where a partition's log lies."""
        return self._dir_of[partition.topic_partition]

    def partitions_in(self, directory: LogDir) -> Iterator[Partition]:
        """The partitions whose log lies in a directory."""
        return (partition for partition in self if self._dir_of[partition.topic_partition] is directory)

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
        if partition is not None and partition.leader_throttled:
            self.leader_throttle.record(size, self.monotonic_ms())

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
                log.error("%s", error)
            except Exception:  # one partition's fault: the others follow the metadata all the same
                log.exception("a change of the metadata could not be followed")
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
            yield from (one.reconsider for one in self if one.leadership is not None)

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
                log.warning("%s is in the way of a new topic: set aside as %s", path, stray)
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
        return rules

    def tiered(self, topic: TopicImage, index: int) -> bool:
        """Whether a partition's log may begin elsewhere than on this disk."""
        return self._tier_of(topic.id, TopicPartition(topic.name, index), self.rules_of(topic.name)) is not None

    def _tier_of(self, topic_id: Uuid, tp: TopicPartition, rules: TopicRules) -> Tier | None:
        return self._tiers.tier_of(topic_id, tp, rules) if rules.tiered and self._tiers is not None else None

    def _directory_for(self, topic: TopicImage, index: int) -> LogDir:
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

    def _remove_partition(self, topic: TopicImage, index: int) -> None:
        """The partition has moved to other nodes."""
        self._forget_lost(TopicPartition(topic.name, index))
        hosted = self._by_id.get(topic.id)
        partition = hosted.partitions.pop(index, None) if hosted is not None else None
        if hosted is None or partition is None:
            return
        if not hosted.partitions:
            del self._by_id[topic.id], self._by_name[topic.name]
        log.info("%s is not held here any more", partition.topic_partition)
        self._delete(partition)

    def _forget_lost(self, tp: TopicPartition) -> None:
        """What cannot be reached of a partition that is gone does not stand in another's way."""
        self._unusable.pop(tp, None)
        directory = self._dir_of.get(tp)
        if directory is not None and not directory.online:
            del self._dir_of[tp]

    def take_offline(self, directory: LogDir, why: object) -> None:
        """Give up a directory that failed, and all that lies in it, until the node restarts."""
        directory.fail(why)
        for partition in list(self.partitions_in(directory)):
            tp = partition.topic_partition
            del self._by_id[partition.topic_id].partitions[tp.partition]
            self.proposals.drop(partition)
            partition.close()

    def check_logs(self) -> None:
        """Give up the directories of logs that failed, if other directories or nodes can stand in for them."""
        for partition in self:
            if partition.failed is not None and partition.topic_partition in self._dir_of:
                directory = self.directory_of(partition)
                others = any(one.online for one in self.dirs if one is not directory)
                if directory.online and (others or len(self.brokers) > 1):
                    self.take_offline(directory, partition.failed)

    def _delete(self, partition: Partition) -> None:
        partition.close()
        self.proposals.drop(partition)
        directory = self._dir_of.pop(partition.topic_partition, None)
        if directory is not None:
            directory.replicas -= 1
        try:
            partition.log.mark_deleted(self._new_name())
        except KafkaStorageError as error:
            log.error("%s", error)  # the next start finds a log without a topic
        else:
            at_ms = self._clock.now_ms() + partition.rules.log.file_delete_delay_ms
            self.removals.add(partition.log, at_ms)

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
        self.max_lag_ms = self.values[REPLICA_LAG_TIME_MAX_MS]
        self.leader_throttle.rate = self.values[LEADER_REPLICATION_THROTTLED_RATE]

    def _give_rules(self, hosted: HostedTopic) -> None:
        rules = hosted.rules = self.rules_of(hosted.name)
        for partition in hosted.partitions.values():
            partition.give_rules(rules, self._tier_of(hosted.id, partition.topic_partition, rules))
            partition.reconsider()


def throttle(values: Values, rate: Setting[int]) -> Throttle:
    """A limit on replication by its setting."""
    windows, seconds = values[REPLICATION_QUOTA_WINDOW_NUM], values[REPLICATION_QUOTA_WINDOW_SIZE_SECONDS]
    return Throttle(values[rate], windows, seconds * 1000)
