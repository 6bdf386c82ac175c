"""Moving partitions to other brokers: replicas are added, catch up, and then the old ones go (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.controller.effective import Effective
from kavka.controller.index import PartitionIndex
from kavka.controller.leadership import Leadership
from kavka.controller.partitions import Assignment, Election
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
    """The brokers that shall have a partition, the preferred leader first; None ends a move under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


Moving = list[tuple[str, list[tuple[int, PartitionImage]]]]
"""By topic: the partitions that are being moved."""


class Reassignments:
    """Decides moves, each partition by itself."""

    def __init__(self, effective: Effective, index: PartitionIndex) -> None:
        self._effective = effective
        self._index = index

    def alter(
        self, image: MetadataImage, wanted: Sequence[Reassign], allow_replication_change: bool
    ) -> Transition[list[KafkaError | None]]:
        """Start, change or end moves; for each, in order, why it was not done, or None."""
        leadership = Leadership(image, self._effective, self._index)
        outcomes: list[KafkaError | None] = []
        records: list[PartitionChangeRecord] = []
        for one in wanted:
            try:
                record = self._alter_one(image, one, allow_replication_change, leadership)
            except KafkaError as error:
                outcomes.append(error)
                continue
            outcomes.append(None)
            if record is not None:
                records.append(record)
        return Transition(outcomes, bounded(records))

    def _alter_one(
        self, image: MetadataImage, one: Reassign, allow_replication_change: bool, leadership: Leadership
    ) -> PartitionChangeRecord | None:
        topic = image.topics.by_name.get(one.topic)
        now = None if topic is None else leadership.now(topic, one.partition)
        if topic is None or now is None:
            raise UnknownTopicOrPartition(f"there is no partition {one.topic}-{one.partition}")
        if one.replicas is None:
            return self._cancel(image, topic, one.partition, now, leadership)
        check_assignment(image, one.replicas, None)
        if not allow_replication_change:
            _check_replication(now, one.replicas)
        # Those that go stay replicas, after those that shall be there, until all that come are in sync.
        removing = tuple(sorted(set(now.replicas) - set(one.replicas)))
        # What an earlier move was still adding is no replica of old, whatever this one does with it.
        adding = tuple(sorted(set(one.replicas) - (set(now.replicas) - set(now.adding))))
        assignment = Assignment(one.replicas + removing, adding, removing)
        return leadership.change(topic, one.partition, assignment=assignment, election=Election.ONLINE)

    def _cancel(
        self, image: MetadataImage, topic: TopicImage, index: int, now: PartitionImage, leadership: Leadership
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
        return leadership.change(topic, index, isr=isr, assignment=Assignment(replicas))

    def list(self, image: MetadataImage, wanted: Sequence[tuple[str, Sequence[int]]] | None) -> Moving:
        """The moves under way, of some partitions or (None) of all."""
        if wanted is None:
            by_topic: dict[str, list[tuple[int, PartitionImage]]] = {}
            for topic, index, one in self._index.at(image.topics).moving():
                by_topic.setdefault(topic.name, []).append((index, one))
            return [(name, sorted(found)) for name, found in by_topic.items()]
        moving: Moving = []
        for name, indexes in wanted:
            known = image.topics.by_name.get(name)
            asked = ((index, known.partitions.get(index)) for index in indexes) if known else ()
            rows = [(index, one) for index, one in asked if one is not None and one.reassigning]
            if rows:
                moving.append((name, rows))
        return moving


def _check_replication(now: PartitionImage, replicas: Sequence[int]) -> None:
    before = len({*now.replicas, *now.adding} - set(now.removing))
    if before != len(replicas):
        raise InvalidReplicationFactor(f"The replication factor is changed from {before} to {len(replicas)}")
