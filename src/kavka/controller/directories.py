"""In which log directory of a broker its replicas are (KIP-858)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kavka.controller.brokers import check_epoch
from kavka.controller.effective import Effective
from kavka.controller.index import PartitionIndex
from kavka.controller.partition_changes import PartitionChanges
from kavka.metadata.features import METADATA_VERSION, MV_DIRECTORIES
from kavka.metadata.image import BrokerRegistration, MetadataImage
from kavka.model.errors import (
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kavka.model.transition import Divisible, Transition
from kavka.model.types import Uuid


class InDirectory(NamedTuple):
    """A replica, and the directory of its broker that it is in."""

    directory: Uuid
    topic_id: Uuid
    partition: int


class Directories:
    """Decides about directories, each replica by itself."""

    def __init__(self, effective: Effective, index: PartitionIndex) -> None:
        self._effective = effective
        self._index = index

    def assign(
        self, image: MetadataImage, broker_id: int, broker_epoch: int, replicas: Sequence[InDirectory]
    ) -> Transition[list[KafkaError | None]]:
        """Remember where a broker has its replicas; for each, in order, why it was not done, or None."""
        if image.features.metadata_version < MV_DIRECTORIES:
            raise UnsupportedVersion(f"directories are remembered from {METADATA_VERSION} {MV_DIRECTORIES} on")
        broker = check_epoch(image.cluster, broker_id, broker_epoch)
        changes = PartitionChanges(image, self._effective, self._index)
        outcomes: list[KafkaError | None] = []
        records: list[Any] = []
        for replica in replicas:
            try:
                records += self._assign_one(image, broker, replica, changes)
                outcomes.append(None)
            except KafkaError as error:
                outcomes.append(error)
        return Transition(outcomes, Divisible(records))

    def _assign_one(
        self, image: MetadataImage, broker: BrokerRegistration, replica: InDirectory, changes: PartitionChanges
    ) -> list[Any]:
        topic = image.topics.by_id.get(replica.topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with id {replica.topic_id}")
        now = changes.now(topic, replica.partition)
        if now is None:
            raise UnknownTopicOrPartition(f"topic {topic.name} has no partition {replica.partition}")
        if broker.id not in now.replicas:
            raise NotLeaderOrFollower(f"broker {broker.id} has no replica of {topic.name}-{replica.partition}")
        records = [changes.change(topic, replica.partition, directories={broker.id: replica.directory})]
        if not broker.has_online(replica.directory):
            records.append(changes.without(broker.id, topic, replica.partition))
        return [record for record in records if record is not None]
