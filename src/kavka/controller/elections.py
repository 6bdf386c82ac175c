"""Electing leaders: when asked to, back to the preferred ones now and then, and uncleanly where that is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from kavka.controller.effective import Effective
from kavka.controller.index import PartitionIndex
from kavka.controller.partition_changes import PartitionChanges
from kavka.controller.partitions import LeaderElection
from kavka.controller.recovery import ASKED_FOR_WINDOW_MS, WINDOW_MS, Key, LogInfo, Recoveries, Strategy
from kavka.controller.results import check_count
from kavka.metadata.image import MetadataImage, TopicImage
from kavka.metadata.image.topics import NO_LEADER
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from kavka.model.transition import Divisible, Transition

MAX_ELECTIONS: Final = 1_000
"""The most elections of one periodic check; the rest follows at once."""


MAX_RECOVERIES: Final = 5_000
"""The most partitions that are recovered at a time by themselves."""


class ElectionType(IntEnum):
    """What a request asks for, by its code on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


TopicOutcomes = list[tuple[str, list[tuple[int, KafkaError | None]]]]
"""By topic and partition: why no leader was elected, or None where one was."""


class Elections:
    """Decides elections, each partition by itself."""

    def __init__(self, effective: Effective, index: PartitionIndex) -> None:
        self._effective = effective
        self._index = index
        self._recoveries = Recoveries()

    def elect(
        self, image: MetadataImage, type_: int, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> Transition[TopicOutcomes]:
        """Elect leaders of partitions; None means all, and then those that need no election are left out."""
        if type_ not in list(ElectionType):
            raise InvalidRequest(f"{type_} is no election type")
        changes = PartitionChanges(image, self._effective, self._index)
        outcomes: TopicOutcomes = []
        records: list[PartitionChangeRecord] = []
        everything = ((topic.name, list(topic.partitions)) for topic in image.topics.by_name.values())
        asked: Iterable[tuple[str, Sequence[int]]] = everything if wanted is None else wanted
        for name, indexes in asked:
            rows: list[tuple[int, KafkaError | None]] = []
            for index in indexes:
                error = self._elect_one(image, ElectionType(type_), name, index, changes, records)
                if wanted is not None or not isinstance(error, ElectionNotNeeded):
                    rows.append((index, error))
            outcomes.append((name, rows))
        check_count(len(records))
        return Transition(outcomes, Divisible(records))

    def _elect_one(
        self,
        image: MetadataImage,
        type_: ElectionType,
        name: str,
        index: int,
        changes: PartitionChanges,
        records: list[PartitionChangeRecord],
    ) -> KafkaError | None:
        topic = image.topics.by_name.get(name)
        now = None if topic is None else changes.now(topic, index)
        if topic is None or now is None:
            return UnknownTopicOrPartition(f"there is no partition {name}-{index}")
        if now.leader == now.replicas[0] if type_ is ElectionType.PREFERRED else now.leader != NO_LEADER:
            return ElectionNotNeeded()
        election = LeaderElection.PREFERRED if type_ is ElectionType.PREFERRED else LeaderElection.UNCLEAN
        record = changes.change(topic, index, election=election)
        if record is None:
            return PreferredLeaderNotAvailable() if type_ is ElectionType.PREFERRED else EligibleLeadersNotAvailable()
        records.append(record)
        return None

    # -- from time to time --------------------------------------------------------------------------

    def rebalance(self, image: MetadataImage) -> tuple[Any, ...]:
        """Give partitions back to their preferred leaders, as many as may be at once."""
        changes = PartitionChanges(image, self._effective, self._index)
        partitions = ((topic, index) for topic, index, _ in list(changes.index.unpreferred()))
        return self._some(changes, partitions, LeaderElection.PREFERRED)

    def elect_uncleanly(self, image: MetadataImage) -> tuple[Any, ...]:
        """Elect leaders for partitions that have none and whose topic would rather lose records than wait."""
        changes = PartitionChanges(image, self._effective, self._index)
        partitions = (
            (topic, index)
            for topic, index, _ in list(changes.index.leaderless())
            if self._effective.of_topic(image, topic).unclean_election
        )
        return self._some(changes, partitions, LeaderElection.UNCLEAN)

    # -- by the longest log -------------------------------------------------------------------------

    def recovery_questions(
        self, image: MetadataImage, asked_for: Collection[Key], now_ms: int
    ) -> dict[int, list[Key]] | None:
        """Whom to ask about partitions that have no leader: those that are asked for, and of topics that want it so.

        None if there are no such partitions; nobody if all have answered who can.
        """
        changes = PartitionChanges(image, self._effective, self._index)
        wanted: list[Key] = []
        for topic, index, partition in changes.index.leaderless():
            key, strategy = (topic.id, index), self._effective.of_topic(image, topic).recovery
            if key in asked_for:
                self._recoveries.begin(key, partition.leader_epoch, ASKED_FOR_WINDOW_MS, now_ms, asked_for=True)
            if strategy is not Strategy.NONE and len(wanted) < MAX_RECOVERIES:
                self._recoveries.begin(key, partition.leader_epoch, WINDOW_MS[strategy], now_ms)
                wanted.append(key)
        self._recoveries.prune(image, wanted, now_ms)
        return self._recoveries.questions(image) if len(self._recoveries) else None

    def recover(
        self, image: MetadataImage, answers: Mapping[int, Mapping[Key, LogInfo]], now_ms: int
    ) -> tuple[Any, ...]:
        """Take in how far replicas are, and elect leaders where that is enough."""
        for broker, infos in answers.items():
            for key, info in infos.items():
                self._recoveries.answered(broker, key, info)
        changes = PartitionChanges(image, self._effective, self._index)
        records = []
        for (topic_id, index), broker in self._recoveries.decided(image, now_ms)[:MAX_ELECTIONS]:
            topic = image.topics.by_id[topic_id]
            record = changes.change(topic, index, election=LeaderElection.UNCLEAN, chosen=broker)
            if record is not None:
                records.append(record)
        return Divisible(records)

    def elect_leaderless(self, image: MetadataImage) -> tuple[Any, ...]:
        """Elect leaders for partitions that have none though they could: another controller was cut off."""
        return Divisible(PartitionChanges(image, self._effective, self._index).joined())

    @staticmethod
    def _some(
        changes: PartitionChanges, partitions: Iterable[tuple[TopicImage, int]], election: LeaderElection
    ) -> tuple[Any, ...]:
        records: list[PartitionChangeRecord] = []
        for topic, index in partitions:
            record = changes.change(topic, index, election=election)
            if record is not None:
                records.append(record)
                if len(records) == MAX_ELECTIONS:
                    break
        return Divisible(records)
