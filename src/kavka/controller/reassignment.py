"""Moving partitions to other brokers: replicas are added, catch up, and then the old ones go (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.controller.effective import Effective
from kavka.controller.index import PartitionIndex
from kavka.controller.partition_changes import PartitionChanges
from kavka.controller.partitions import Assignment, LeaderElection
from kavka.controller.results import bounded
from kavka.controller.topics import check_assignment
from kavka.metadata.image import MetadataImage, PartitionImage, TopicImage
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from kavka.model.transition import Transition


class Reassign(NamedTuple):
    """The brokers that shall have a partition, the preferred leader first; None cancels a reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


Moving = list[tuple[str, list[tuple[int, PartitionImage]]]]
"""By topic: the partitions that are being reassigned."""


class Reassignments:
    """Decides reassignments, each partition by itself."""

    def __init__(self, effective: Effective, index: PartitionIndex) -> None:
        self._effective = effective
        self._index = index

    def alter(
        self, image: MetadataImage, wanted: Sequence[Reassign], allow_replication_change: bool
    ) -> Transition[list[KafkaError | None]]:
        """Start, change or cancel reassignments; for each, in order, why it was not done, or None."""
        changes = PartitionChanges(image, self._effective, self._index)
        outcomes: list[KafkaError | None] = []
        records: list[PartitionChangeRecord] = []
        for reassign in wanted:
            try:
                record = self._alter_one(image, reassign, allow_replication_change, changes)
            except KafkaError as error:
                outcomes.append(error)
                continue
            outcomes.append(None)
            if record is not None:
                records.append(record)
        return Transition(outcomes, bounded(records))

    def _alter_one(
        self, image: MetadataImage, reassign: Reassign, allow_replication_change: bool, changes: PartitionChanges
    ) -> PartitionChangeRecord | None:
        topic = image.topics.by_name.get(reassign.topic)
        now = None if topic is None else changes.now(topic, reassign.partition)
        if topic is None or now is None:
            raise UnknownTopicOrPartition(f"there is no partition {reassign.topic}-{reassign.partition}")
        if reassign.replicas is None:
            return self._cancel(image, topic, reassign.partition, now, changes)
        check_assignment(image, reassign.replicas, None)
        if not allow_replication_change:
            _check_replication(now, reassign.replicas)
        # Those that go stay replicas, after those that shall be there, until all that come are in sync.
        removing = tuple(sorted(set(now.replicas) - set(reassign.replicas)))
        # What an earlier reassignment was still adding is no replica of old, whatever this one does with it.
        adding = tuple(sorted(set(reassign.replicas) - (set(now.replicas) - set(now.adding))))
        assignment = Assignment(reassign.replicas + removing, adding, removing)
        return changes.change(topic, reassign.partition, assignment=assignment, election=LeaderElection.ONLINE)

    def _cancel(
        self, image: MetadataImage, topic: TopicImage, index: int, now: PartitionImage, changes: PartitionChanges
    ) -> PartitionChangeRecord | None:
        if not now.reassigning:
            raise NoReassignmentInProgress()
        replicas = tuple(replica for replica in now.replicas if replica not in now.adding)
        isr = tuple(replica for replica in now.isr if replica not in now.adding)
        if not isr:
            if not self._effective.of_topic(image, topic).unclean_election:
                raise InvalidReplicaAssignment(
                    f"{topic.name}-{index} cannot go back without an unclean election: only added replicas are in sync"
                )
            isr = replicas[:1]
        return changes.change(topic, index, isr=isr, assignment=Assignment(replicas))

    def list(self, image: MetadataImage, wanted: Sequence[tuple[str, Sequence[int]]] | None) -> Moving:
        """The reassignments under way, of some partitions or (None) of all."""
        if wanted is None:
            by_topic: dict[str, list[tuple[int, PartitionImage]]] = {}
            for topic, index, partition in self._index.at(image.topics).moving():
                by_topic.setdefault(topic.name, []).append((index, partition))
            return [(name, sorted(found)) for name, found in by_topic.items()]
        moving: Moving = []
        for name, indexes in wanted:
            known = image.topics.by_name.get(name)
            asked = ((index, known.partitions.get(index)) for index in indexes) if known else ()
            rows = [(index, partition) for index, partition in asked if partition is not None and partition.reassigning]
            if rows:
                moving.append((name, rows))
        return moving


def _check_replication(now: PartitionImage, replicas: Sequence[int]) -> None:
    before = len({*now.replicas, *now.adding} - set(now.removing))
    if before != len(replicas):
        raise InvalidReplicationFactor(f"The replication factor is changed from {before} to {len(replicas)}")
