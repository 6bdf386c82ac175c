"""Creating and deleting topics, and giving them more partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kavka.controller.configs import Configs, Op, clear_elr_records
from kavka.controller.effective import Effective
from kavka.controller.placement import Draw, UsableBroker, place
from kavka.controller.results import bounded, check_count
from kavka.metadata.features import MV_DIRECTORIES
from kavka.metadata.image import ConfigResource, MetadataImage, PartitionImage, ResourceType
from kavka.metadata.image.cluster import MIGRATING
from kavka.metadata.image.emit import partition_record
from kavka.metadata.names import REMOTE_LOG_METADATA, collision_key, validate_topic_name
from kavka.metadata.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from kavka.model.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.transition import Transition
from kavka.model.types import Uuid

MAX_PARTITIONS: Final = 10_000
"""The most partitions one request may create."""


Charge = Callable[[int], None]
"""Is told of the partitions of each topic that can be changed; raises ThrottlingQuotaExceeded to forbid it."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 partitions or replicas leave the number to the cluster's defaults."""

    name: str
    partitions: int = -1
    replication: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    """Partition and its brokers, the leader first; instead of the two numbers."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic that shall have so many partitions; `assignments` places each of the added ones."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    """A topic that was (or could be) created."""

    id: Uuid
    partitions: int
    replication: int


class Topics:
    """Decides about topics, each by itself."""

    def __init__(self, effective: Effective, configs: Configs, draw: Draw, new_id: Callable[[], Uuid]) -> None:
        self._effective = effective
        self._configs = configs
        self._draw = draw
        self._new_id = new_id

    def create(
        self, image: MetadataImage, topics: Sequence[NewTopic], validate_only: bool, charge: Charge | None
    ) -> Transition[dict[str, CreatedTopic | KafkaError]]:
        """Create those that can be; the names are distinct. Raises PolicyViolation when all are too many together."""
        self._check_total(topics)
        outcomes: dict[str, CreatedTopic | KafkaError] = {}
        records: list[Any] = []
        for topic in topics:
            try:
                outcomes[topic.name], written = self._create_one(image, topic, charge)
                records += written
            except KafkaError as error:
                outcomes[topic.name] = error
        return Transition(outcomes) if validate_only else Transition(outcomes, bounded(records))

    def delete(
        self, image: MetadataImage, ids: Sequence[Uuid], charge: Charge | None
    ) -> Transition[dict[Uuid, KafkaError | None]]:
        """Delete those that are there."""
        known = image.topics.by_id
        outcomes: dict[Uuid, KafkaError | None] = {}
        for id_ in ids:
            outcomes[id_] = None
            try:
                if id_ not in known:
                    raise UnknownTopicId(f"there is no topic with id {id_}")
                if charge is not None:
                    charge(len(known[id_].partitions))
            except KafkaError as error:
                outcomes[id_] = error
        records = [RemoveTopicRecord(topic_id=id_) for id_, error in outcomes.items() if error is None]
        return Transition(outcomes, bounded(records))

    def create_partitions(
        self, image: MetadataImage, topics: Sequence[NewPartitions], validate_only: bool, charge: Charge | None
    ) -> Transition[dict[str, KafkaError | None]]:
        """Give topics more partitions, where that can be; the names are distinct."""
        outcomes: dict[str, KafkaError | None] = {}
        records: list[PartitionRecord] = []
        for wanted in topics:
            try:
                records += self._more_partitions(image, wanted, charge)
                outcomes[wanted.name] = None
            except KafkaError as error:
                outcomes[wanted.name] = error
        return Transition(outcomes) if validate_only else Transition(outcomes, bounded(records))

    # -- one topic --------------------------------------------------------------------------------

    def _check_total(self, topics: Sequence[NewTopic]) -> None:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            else:
                total += self._effective.default_partitions if topic.partitions == -1 else max(topic.partitions, 0)
        if total > MAX_PARTITIONS:
            raise PolicyViolation(f"one request creates at most {MAX_PARTITIONS} partitions, not {total}")

    def _create_one(
        self, image: MetadataImage, topic: NewTopic, charge: Charge | None
    ) -> tuple[CreatedTopic, list[Any]]:
        _check_name(image, topic.name)
        settings = self._setting_records(image, topic)
        partitions = self._assigned(image, topic) if topic.assignments else self._placed(image, topic)
        if charge is not None:
            charge(len(partitions))
        id_ = self._new_id()
        metadata_version = image.features.metadata_version
        records: list[Any] = [TopicRecord(name=topic.name, topic_id=id_), *settings]
        records += [
            partition_record(id_, index, partition, metadata_version) for index, partition in enumerate(partitions)
        ]
        return CreatedTopic(id_, len(partitions), len(partitions[0].replicas)), records

    def _setting_records(self, image: MetadataImage, topic: NewTopic) -> list[Any]:
        if not topic.configs:
            return []
        empty = [name for name, text in topic.configs.items() if text is None]
        if empty:
            raise InvalidConfig(f"a topic setting needs a value: {', '.join(empty)}")
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        keys = {name: (int(Op.SET), text) for name, text in topic.configs.items()}
        records: list[Any] = list(self._configs.incremental_records(image, resource, keys, exists=True))
        return records + clear_elr_records(image, records)

    def _assigned(self, image: MetadataImage, topic: NewTopic) -> list[PartitionImage]:
        if topic.replication != -1 or topic.partitions != -1:
            raise InvalidRequest("partitions and replication factor must be -1 when replicas are assigned by hand")
        partitions: dict[int, PartitionImage] = {}
        replication: int | None = None
        for index, replicas in topic.assignments:
            if index in partitions:
                raise InvalidReplicaAssignment(f"partition {index} is assigned twice")
            check_assignment(image, replicas, replication)
            replication = len(replicas)
            partitions[index] = self._assigned_partition(image, index, replicas)
        if sorted(partitions) != list(range(len(partitions))):
            raise InvalidReplicaAssignment("the assigned partitions must be numbered from 0 without gaps")
        return [partitions[index] for index in range(len(partitions))]

    def _assigned_partition(self, image: MetadataImage, index: int, replicas: Sequence[int]) -> PartitionImage:
        partition = _new_partition(image, tuple(replicas))
        if partition is None:
            raise InvalidReplicaAssignment(f"every broker assigned to partition {index} is fenced or shutting down")
        return partition

    def _placed(self, image: MetadataImage, topic: NewTopic) -> list[PartitionImage]:
        if topic.replication < -1 or topic.replication == 0:
            raise InvalidReplicationFactor("the replication factor must be positive, or -1 for the default")
        if topic.partitions < -1 or topic.partitions == 0:
            raise InvalidPartitions("the number of partitions must be positive, or -1 for the default")
        count = self._effective.default_partitions if topic.partitions == -1 else topic.partitions
        replication = self._effective.default_replication if topic.replication == -1 else topic.replication
        return self._place(image, count, replication)

    def _place(self, image: MetadataImage, count: int, replication: int) -> list[PartitionImage]:
        partitions = []
        for replicas in place(_usable_brokers(image), count, replication, self._draw):
            partition = _new_partition(image, replicas)
            if partition is None:
                raise InvalidReplicationFactor("all brokers are fenced or shutting down")
            partitions.append(partition)
        return partitions

    def _more_partitions(
        self, image: MetadataImage, wanted: NewPartitions, charge: Charge | None
    ) -> list[PartitionRecord]:
        topic = image.topics.by_name.get(wanted.name)
        if topic is None:
            raise UnknownTopicOrPartition  # Kafka has no words for it
        if wanted.name == REMOTE_LOG_METADATA:
            raise InvalidPartitions(f"{wanted.name} has each remote segment where its number of partitions says")
        have = len(topic.partitions)
        if wanted.count <= have:
            raise InvalidPartitions(f"topic {wanted.name} has {have} partitions; {wanted.count} would not be more")
        added = wanted.count - have
        replication = len(topic.partitions[0].replicas)
        if wanted.assignments is not None and len(wanted.assignments) != added:
            raise InvalidReplicaAssignment(f"{added} partitions are added, {len(wanted.assignments)} are assigned")
        if charge is not None:
            charge(added)
        if wanted.assignments is None:
            check_count(added)
            partitions = self._place(image, added, replication)
        else:
            partitions = []
            for index, replicas in enumerate(wanted.assignments, have):
                check_assignment(image, replicas, replication)
                partitions.append(self._assigned_partition(image, index, replicas))
        metadata_version = image.features.metadata_version
        return [
            partition_record(topic.id, index, partition, metadata_version)
            for index, partition in enumerate(partitions, have)
        ]


def _check_name(image: MetadataImage, name: str) -> None:
    if name in image.topics.by_name:
        raise TopicAlreadyExists(f"topic {name} exists already")
    validate_topic_name(name)
    key = collision_key(name)
    others = () if key is None else image.topics.by_collision_key.get(key, ())
    if others:
        raise InvalidTopicException(f"topic {name} and topic {others[0]} would have the same metrics")


def check_assignment(image: MetadataImage, replicas: Sequence[int], replication: int | None) -> None:
    """Raise InvalidReplicaAssignment unless these are distinct registered brokers, as many as others have."""
    if not replicas:
        raise InvalidReplicaAssignment("a partition is assigned to no broker")
    for broker in sorted(replicas):
        if broker not in image.cluster.brokers:
            raise InvalidReplicaAssignment(f"a partition is assigned to broker {broker}, which is not registered")
    if len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignment("a partition is assigned to one broker twice")
    if replication is not None and len(replicas) != replication:
        raise InvalidReplicaAssignment(f"a partition is assigned {len(replicas)} replicas, others have {replication}")


def _usable_brokers(image: MetadataImage) -> Iterator[UsableBroker]:
    for broker in image.cluster.brokers.values():
        if broker.takes_replicas and (broker.fenced or not broker.in_controlled_shutdown):
            yield UsableBroker(broker.id, broker.rack, broker.fenced)


def _new_partition(image: MetadataImage, replicas: tuple[int, ...]) -> PartitionImage | None:
    """A partition on these brokers, whose leader is the first active one; None if none is active."""
    cluster = image.cluster
    isr = tuple(broker for broker in replicas if cluster.is_active(broker))
    if not isr:
        return None
    if image.features.metadata_version >= MV_DIRECTORIES:
        directories = tuple(cluster.default_directory(broker) for broker in replicas)
    else:
        directories = (MIGRATING,) * len(replicas)
    return PartitionImage(
        leader=isr[0], leader_epoch=0, partition_epoch=0, replicas=replicas, isr=isr, directories=directories
    )
