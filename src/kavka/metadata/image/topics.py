"""The topics and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.metadata.faults import MetadataError
from kavka.metadata.image.cluster import MIGRATING, UNASSIGNED
from kavka.metadata.image.persistent import GONE, Gone, PersistentMap
from kavka.metadata.names import collision_key
from kavka.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kavka.model.types import Uuid

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2


class LeaderRecoveryState(IntEnum):
    """Whether a leader that was elected uncleanly has finished recovering; NO_CHANGE only in change records."""

    NO_CHANGE = -1
    RECOVERED = 0
    RECOVERING = 1


class PartitionImage(NamedTuple):
    """A partition: its replicas, leader and ISR. A tuple, because there are so many of them."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[Uuid, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader_recovery_state: int = LeaderRecoveryState.RECOVERED

    @property
    def reassigning(self) -> bool:
        """Whether it is being reassigned."""
        return bool(self.adding or self.removing)

    def directory(self, replica: int) -> Uuid:
        """The log directory of a replica; UNASSIGNED for a broker that has none."""
        for id_, directory in zip(self.replicas, self.directories, strict=False):
            if id_ == replica:
                return directory
        return UNASSIGNED


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic."""

    id: Uuid
    name: str
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by id and by name, and the names that must not be used because a metric would mix them up."""

    by_id: PersistentMap[Uuid, TopicImage]
    by_name: PersistentMap[str, TopicImage]
    by_collision_key: PersistentMap[str, tuple[str, ...]]

    def partition(self, topic_id: Uuid, partition: int) -> PartitionImage | None:
        """A partition by its topic's id."""
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)


EMPTY_TOPICS = TopicsImage(PersistentMap(), PersistentMap(), PersistentMap())


class TopicsDraft:
    """The topics image being changed by records."""

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._partitions: dict[Uuid, dict[int, PartitionImage]] = {}
        self._changed: dict[Uuid, set[int]] = {}
        self._named: dict[Uuid, str] = {}
        self._names: dict[str, Uuid | Gone] = {}
        self._removed: dict[Uuid, str] = {}

    @property
    def changed(self) -> bool:
        """Whether a record touched any topic."""
        return bool(self._partitions or self._removed)

    @property
    def changed_partitions(self) -> Mapping[Uuid, frozenset[int]]:
        """The partitions that were added or changed, of topics that are there."""
        return {id_: frozenset(changed) for id_, changed in self._changed.items()}

    @property
    def removed(self) -> frozenset[Uuid]:
        """The topics that were removed and had been there before."""
        return frozenset(id_ for id_ in self._removed if id_ in self._image.by_id)

    def topic(self, record: TopicRecord) -> None:
        """A new topic, without partitions yet."""
        name, id_ = record.name, record.topic_id
        if self._id_of(name) is not None or id_ in self._partitions or id_ in self._image.by_id:
            raise MetadataError(f"topic {name} ({id_}) is created but is there already")
        self._names[name] = id_
        self._named[id_] = name
        self._partitions[id_] = {}
        self._changed[id_] = set()

    def partition(self, record: PartitionRecord) -> None:
        """A new partition, or all there is to know of one."""
        replicas = tuple(record.replicas)
        directories = tuple(record.directories) if record.directories else (MIGRATING,) * len(replicas)
        partitions = self._touch(record.topic_id)
        partitions[record.partition_id] = PartitionImage(
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            replicas=replicas,
            isr=replicas if record.isr == record.replicas else tuple(record.isr),
            directories=directories,
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            adding=tuple(record.adding_replicas),
            removing=tuple(record.removing_replicas),
            leader_recovery_state=record.leader_recovery_state,
        )
        self._changed[record.topic_id].add(record.partition_id)

    def change_partition(self, record: PartitionChangeRecord) -> None:
        """A change of some fields of a partition."""
        partitions = self._touch(record.topic_id)
        before = partitions.get(record.partition_id)
        if before is None:
            raise MetadataError(f"partition {record.partition_id} of topic {record.topic_id} changes but is not there")
        partitions[record.partition_id] = merged(before, record)
        self._changed[record.topic_id].add(record.partition_id)

    def remove_topic(self, record: RemoveTopicRecord) -> str:
        """Forget a topic; returns its name."""
        id_ = record.topic_id
        name = self._name_of(id_)
        if name is None:
            raise MetadataError(f"topic {id_} is removed but is not there")
        self._partitions.pop(id_, None)
        self._changed.pop(id_, None)
        self._named.pop(id_, None)
        self._removed[id_] = name
        self._names[name] = GONE
        return name

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Empty the eligible leader replicas of a topic, or of all when it is not named."""
        if record.topic_name:
            id_ = self._id_of(record.topic_name)
            if id_ is None:
                raise MetadataError(f"the ELR of topic {record.topic_name} is cleared, but it is not there")
            ids: Iterable[Uuid] = (id_,)
        else:
            ids = {*self._image.by_id, *self._partitions} - self._removed.keys()
        for id_ in ids:
            known = self._partitions[id_] if id_ in self._partitions else self._image.by_id[id_].partitions
            for index in [index for index, partition in known.items() if partition.elr or partition.last_known_elr]:
                partitions = self._touch(id_)
                partition = partitions[index]
                partitions[index] = partition._replace(
                    elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                )
                self._changed[id_].add(index)

    def build(self) -> TopicsImage:
        """The image with the changes."""
        if not self.changed:
            return self._image
        ids: dict[Uuid, TopicImage | Gone] = dict.fromkeys(self._removed, GONE)
        names: dict[str, TopicImage | Gone] = {name: GONE for name, id_ in self._names.items() if id_ is GONE}
        for id_, partitions in self._partitions.items():
            name = self._named.get(id_) or self._image.by_id[id_].name
            ids[id_] = names[name] = TopicImage(id_, name, partitions)
        return TopicsImage(self._image.by_id.changed(ids), self._image.by_name.changed(names), self._collisions(names))

    def _collisions(self, names: Mapping[str, TopicImage | Gone]) -> PersistentMap[str, tuple[str, ...]]:
        known = self._image.by_collision_key
        changes: dict[str, tuple[str, ...]] = {}
        for name in self._names:
            key = collision_key(name)
            if key is not None:
                others = changes.get(key, known.get(key, ()))
                without = tuple(other for other in others if other != name)
                changes[key] = without if names.get(name) is GONE else (*without, name)
        return known.changed({key: found or GONE for key, found in changes.items()})

    def _id_of(self, name: str) -> Uuid | None:
        id_ = self._names.get(name)
        if id_ is None:
            topic = self._image.by_name.get(name)
            return None if topic is None else topic.id
        return None if id_ is GONE else id_

    def _name_of(self, id_: Uuid) -> str | None:
        if id_ in self._removed:
            return None
        name = self._named.get(id_)
        if name is None:
            topic = self._image.by_id.get(id_)
            name = None if topic is None else topic.name
        return name

    def _touch(self, id_: Uuid) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(id_)
        if partitions is None:
            topic = None if id_ in self._removed else self._image.by_id.get(id_)
            if topic is None:
                raise MetadataError(f"a partition of topic {id_} changes, but the topic is not there")
            partitions = self._partitions[id_] = dict(topic.partitions)
            self._changed[id_] = set()
        return partitions


def merged(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """A partition after a change record: a set leader bumps the leader epoch, any change the partition epoch."""
    led = record.leader != NO_LEADER_CHANGE
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    directories = before.directories if record.directories is None else tuple(record.directories)
    recovery = record.leader_recovery_state
    return PartitionImage(
        leader=record.leader if led else before.leader,
        leader_epoch=before.leader_epoch + led,
        partition_epoch=before.partition_epoch + 1,
        replicas=replicas,
        isr=before.isr if record.isr is None else tuple(record.isr),
        directories=directories or (MIGRATING,) * len(replicas),
        elr=before.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
        last_known_elr=before.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
        adding=before.adding if record.adding_replicas is None else tuple(record.adding_replicas),
        removing=before.removing if record.removing_replicas is None else tuple(record.removing_replicas),
        leader_recovery_state=before.leader_recovery_state if recovery == LeaderRecoveryState.NO_CHANGE else recovery,
    )
