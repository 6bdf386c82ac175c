"""From one metadata image to the next: applying records, and naming what they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kavka.metadata.faults import MetadataError
from kavka.metadata.image.cluster import ClusterDraft
from kavka.metadata.image.configs import ConfigResource, ConfigsDraft
from kavka.metadata.image.features import FeaturesDraft
from kavka.metadata.image.metadata import MetadataImage
from kavka.metadata.image.security import KEEPS, SecurityDraft
from kavka.metadata.image.topics import TopicImage, TopicsDraft
from kavka.metadata.records.nodes import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kavka.metadata.records.settings import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from kavka.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kavka.metadata.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from kavka.model.types import Uuid


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What differs between two images. A topic is either created, deleted or (if it stays) has changed partitions."""

    created_topics: Mapping[Uuid, TopicImage] = field(default_factory=dict)
    deleted_topics: Mapping[Uuid, TopicImage] = field(default_factory=dict)
    changed_partitions: Mapping[Uuid, frozenset[int]] = field(default_factory=dict)
    """Partitions added to or changed in topics that were there before."""
    brokers: frozenset[int] = frozenset()
    controllers: frozenset[int] = frozenset()
    configs: frozenset[ConfigResource] = frozenset()
    features: frozenset[str] = frozenset()
    security: frozenset[str] = frozenset()
    producer_ids: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return self == _NO_CHANGE

    @property
    def size(self) -> int:
        """How much there is to act on."""
        return (
            sum(len(topic.partitions) for topic in self.created_topics.values())
            + sum(len(topic.partitions) for topic in self.deleted_topics.values())
            + sum(map(len, self.changed_partitions.values()))
            + len(self.brokers)
            + len(self.configs)
        )


_NO_CHANGE: Final = MetadataDelta()


def apply(image: MetadataImage, records: Iterable[Any], offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
    """The image after records of which the last is at an offset, and what they changed; raises MetadataError."""
    draft = _Draft(image)
    restarted = False
    for record in records:
        replay = _REPLAYS.get(type(record))
        if replay is not None:
            replay(draft, record)
        elif isinstance(record, BeginTransactionRecord):
            now, _ = draft.build(offset, epoch)
            if now.in_transaction:
                raise MetadataError("a metadata transaction begins inside another")
            draft, restarted = _Draft(replace(now, before_transaction=now)), True
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            now, _ = draft.build(offset, epoch)
            if now.before_transaction is None:
                raise MetadataError("a metadata transaction ends that was never begun")
            ended = isinstance(record, EndTransactionRecord)
            draft, restarted = _Draft(replace(now, before_transaction=None) if ended else now.before_transaction), True
    after, delta = draft.build(offset, epoch)
    return after, between(image, after) if restarted else delta


def between(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """What differs between any two images, found by comparing all of them."""
    old, new = before.topics.by_id, after.topics.by_id
    changed: dict[Uuid, frozenset[int]] = {}
    for id_, topic in new.items():
        was = old.get(id_)
        if was is not None and was is not topic and was != topic:
            found = (index for index, partition in topic.partitions.items() if was.partitions.get(index) != partition)
            changed[id_] = frozenset(found)
    return MetadataDelta(
        created_topics={id_: topic for id_, topic in new.items() if id_ not in old},
        deleted_topics={id_: topic for id_, topic in old.items() if id_ not in new},
        changed_partitions=changed,
        brokers=_differing(before.cluster.brokers, after.cluster.brokers),
        controllers=_differing(before.cluster.controllers, after.cluster.controllers),
        configs=_differing(before.configs.resources, after.configs.resources),
        features=_differing(before.features.levels, after.features.levels),
        security=frozenset(
            kind
            for kind in ("acls", "scram", "tokens", "quotas")
            if getattr(before.security, kind) != getattr(after.security, kind)
        ),
        producer_ids=before.next_producer_id != after.next_producer_id,
    )


def _differing(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> frozenset[Any]:
    return frozenset(key for key in {**before, **after} if before.get(key) != after.get(key))


class _Draft:
    """An image being changed, one part per concern."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.features = FeaturesDraft(image.features)
        self.cluster = ClusterDraft(image.cluster)
        self.topics = TopicsDraft(image.topics)
        self.configs = ConfigsDraft(image.configs)
        self.security = SecurityDraft(image.security)
        self.next_producer_id = image.next_producer_id

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        self.configs.topic_removed(self.topics.remove_topic(record))

    def producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self.next_producer_id:
            raise MetadataError(f"producer ids go back from {self.next_producer_id} to {record.next_producer_id}")
        self.next_producer_id = record.next_producer_id

    def build(self, offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        image = self.image
        after = MetadataImage(
            offset=offset,
            epoch=epoch,
            features=self.features.build(),
            cluster=self.cluster.build(),
            topics=self.topics.build(),
            configs=self.configs.build(),
            security=self.security.build(),
            next_producer_id=self.next_producer_id,
            before_transaction=image.before_transaction,
        )
        return after, self._delta(after)

    def _delta(self, after: MetadataImage) -> MetadataDelta:
        before, topics = self.image, self.topics
        created: dict[Uuid, TopicImage] = {}
        deleted: dict[Uuid, TopicImage] = {}
        changed: Mapping[Uuid, frozenset[int]] = {}
        if topics.changed:
            known = before.topics.by_id
            touched = topics.changed_partitions
            created = {id_: after.topics.by_id[id_] for id_ in touched if id_ not in known}
            changed = {id_: found for id_, found in touched.items() if id_ in known}
            deleted = {id_: known[id_] for id_ in topics.removed}
        return MetadataDelta(
            created_topics=created,
            deleted_topics=deleted,
            changed_partitions=changed,
            brokers=frozenset(self.cluster.changed_brokers),
            controllers=frozenset(self.cluster.changed_controllers),
            configs=self.configs.changed,
            features=frozenset(self.features.changed),
            security=self.security.changed,
            producer_ids=before.next_producer_id != after.next_producer_id,
        )


_REPLAYS: Final[Mapping[type, Callable[[_Draft, Any], object]]] = {
    FeatureLevelRecord: lambda draft, record: draft.features.feature_level(record),
    TopicRecord: lambda draft, record: draft.topics.topic(record),
    PartitionRecord: lambda draft, record: draft.topics.partition(record),
    PartitionChangeRecord: lambda draft, record: draft.topics.change_partition(record),
    RemoveTopicRecord: _Draft.remove_topic,
    ClearElrRecord: lambda draft, record: draft.topics.clear_elr(record),
    ConfigRecord: lambda draft, record: draft.configs.config(record),
    ProducerIdsRecord: _Draft.producer_ids,
    RegisterBrokerRecord: lambda draft, record: draft.cluster.register_broker(record),
    UnregisterBrokerRecord: lambda draft, record: draft.cluster.unregister_broker(record),
    FenceBrokerRecord: lambda draft, record: draft.cluster.fence_broker(record),
    UnfenceBrokerRecord: lambda draft, record: draft.cluster.unfence_broker(record),
    BrokerRegistrationChangeRecord: lambda draft, record: draft.cluster.change_broker(record),
    RegisterControllerRecord: lambda draft, record: draft.cluster.register_controller(record),
    **{record: lambda draft, record: draft.security.keep(record) for record in KEEPS},
}
"""What each record does; the others (NoOp, ZkMigrationState) change nothing."""
