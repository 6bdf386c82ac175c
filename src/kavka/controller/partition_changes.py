"""Changing partitions under one image of the cluster: the election rules of their topics, and who may lead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kavka.controller.effective import Effective, ElectionRules
from kavka.controller.index import IndexedPartition, Key, PartitionIndex
from kavka.controller.partitions import Change, LeaderElection, change_record
from kavka.metadata.image import MetadataImage, PartitionImage, TopicImage
from kavka.metadata.image.topics import NO_LEADER, merged
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.types import Uuid

NOBODY = NO_LEADER


class PartitionChanges:
    """Decides the changes of one request, each on top of those before it."""

    def __init__(self, image: MetadataImage, effective: Effective, index: PartitionIndex) -> None:
        self._image = image
        self._effective = effective
        self.index = index.at(image.topics)
        self._changes: dict[Key, list[PartitionChangeRecord]] = {}
        self._rules_topic: TopicImage | None = None
        self._rules = ElectionRules(0, False)

    def now(self, topic: TopicImage, index: int) -> PartitionImage | None:
        """A partition after the changes so far."""
        partition = topic.partitions.get(index)
        for record in self._changes.get((topic.id, index), ()):
            assert partition is not None
            partition = merged(partition, record)
        return partition

    def change(
        self,
        topic: TopicImage,
        index: int,
        *,
        leaving: int = NOBODY,
        joining: int = NOBODY,
        election: LeaderElection | None = None,
        **what: Any,
    ) -> PartitionChangeRecord | None:
        """The record of a change; None if there is none. By default elects as the topic allows, and keeps the ISR."""
        image = self._image
        now = self.now(topic, index)
        assert now is not None
        if self._rules_topic is not topic:
            self._rules_topic, self._rules = topic, self._effective.of_topic(image, topic)
        rules = self._rules

        def may_lead(replica: int) -> bool:
            if replica == leaving or not (replica == joining or image.cluster.is_active(replica)):
                return False
            return image.cluster.brokers[replica].has_online(now.directory(replica))

        if election is None:
            election = LeaderElection.UNCLEAN if rules.unclean_election else LeaderElection.ONLINE
        change = Change(
            isr=what.pop("isr", now.isr),
            may_lead=may_lead,
            min_isr=min(rules.min_isr, len(topic.partitions[0].replicas)),
            elr_enabled=image.features.elr_enabled,
            metadata_version=image.features.metadata_version,
            election=election,
            default_directory=image.cluster.default_directory,
            **what,
        )
        record = change_record(topic.id, index, now, change)
        if record is not None:
            self._changes.setdefault((topic.id, index), []).append(record)
        return record

    # -- brokers that come and go -----------------------------------------------------------------

    def left(self, broker_id: int) -> Iterator[PartitionChangeRecord]:
        """A broker leaves every ISR."""
        return self._without(broker_id, (found for found in self._on(broker_id) if broker_id in found.partition.isr))

    def crashed(self, broker_id: int) -> Iterator[PartitionChangeRecord]:
        """A broker may have lost records: it leaves every ISR and every ELR."""
        affected = (
            found
            for found in self._on(broker_id)
            if broker_id in found.partition.isr or broker_id in found.partition.elr
        )
        return self._without(broker_id, affected, crashed=(broker_id,))

    def lost_directory(self, broker_id: int, directory: Uuid) -> Iterator[PartitionChangeRecord]:
        """A broker no longer serves what is in one of its directories."""
        affected = (found for found in self._on(broker_id) if found.partition.directory(broker_id) == directory)
        return self._without(broker_id, affected)

    def joined(self, broker_id: int = NOBODY) -> Iterator[PartitionChangeRecord]:
        """A broker is about to be unfenced: partitions without a leader may have one again."""
        for topic, index, _ in list(self.index.leaderless()):
            record = self.change(topic, index, joining=broker_id)
            if record is not None:
                yield record

    def without(self, broker_id: int, topic: TopicImage, index: int, **what: Any) -> PartitionChangeRecord | None:
        """The change of one partition whose ISR a broker leaves."""
        now = self.now(topic, index)
        assert now is not None
        isr = tuple(replica for replica in now.isr if replica != broker_id)
        return self.change(topic, index, leaving=broker_id, isr=isr, **what)

    def _on(self, broker_id: int) -> Iterator[IndexedPartition]:
        return self.index.on(broker_id)

    def _without(
        self, broker_id: int, affected: Iterable[IndexedPartition], **what: Any
    ) -> Iterator[PartitionChangeRecord]:
        for topic, index, _ in list(affected):
            record = self.without(broker_id, topic, index, **what)
            if record is not None:
                yield record
