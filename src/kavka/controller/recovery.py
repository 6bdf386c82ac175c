"""Recovering partitions that have lost their whole ISR (KIP-966): the replica with the longest log is to lead.

Soft state: who has been asked how far its replica is, and what came back; a new leader of the quorum asks anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from kavka.metadata.image import MetadataImage, PartitionImage
from kavka.metadata.image.topics import NO_LEADER
from kavka.model.types import Uuid

Key = tuple[Uuid, int]
"""A partition: its topic's id, and its number."""


class Strategy(StrEnum):
    """How soon a partition may go on without records that only the missing have, in Kafka's words."""

    NONE = "none"
    BALANCED = "balanced"
    AGGRESSIVE = "aggressive"


WINDOW_MS: Final = {Strategy.BALANCED: 30_000, Strategy.AGGRESSIVE: 2_000}
"""For how long answers of all replicas are waited for before those that came have to do."""
ASKED_FOR_WINDOW_MS: Final = 25_000
"""The same where an operator has asked for a leader."""


class LogInfo(NamedTuple):
    """How far a broker's replica of a partition is."""

    last_epoch: int
    end_offset: int
    leader_epoch: int
    """The newest leader epoch that the broker knows of."""


class Chosen(NamedTuple):
    """The next leader of a partition."""

    key: Key
    broker: int


def longest(answers: Mapping[int, LogInfo]) -> int:
    """The broker whose log has the latest epoch, and of those the longest; of equals the one with the lowest id."""
    return max(answers, key=lambda broker: (answers[broker].last_epoch, answers[broker].end_offset, -broker))


@dataclass(slots=True)
class _Recovery:
    leader_epoch: int
    ends_at_ms: int
    asked_for: bool
    """By an operator, who does not want to wait for brokers that are gone."""
    answers: dict[int, LogInfo] = field(default_factory=dict)


class Recoveries:
    """The partitions that are being recovered."""

    def __init__(self) -> None:
        self._under_way: dict[Key, _Recovery] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, key: Key, leader_epoch: int, window_ms: int, now_ms: int, *, asked_for: bool = False) -> None:
        """Recover a partition without a leader; one that is under way is not put off by that."""
        known = self._under_way.get(key)
        if known is None or known.leader_epoch != leader_epoch:
            self._under_way[key] = _Recovery(leader_epoch, now_ms + window_ms, asked_for)
        else:
            known.ends_at_ms = min(known.ends_at_ms, now_ms + window_ms)
            known.asked_for |= asked_for

    def prune(self, image: MetadataImage, wanted: Iterable[Key], now_ms: int) -> None:
        """Give up what has a leader by now, is gone, or is not wanted any more."""
        wanted = set(wanted)
        for key, recovery in list(self._under_way.items()):
            partition = _partition(image, key)
            over = key not in wanted and (not recovery.asked_for or now_ms > recovery.ends_at_ms)
            if over or partition is None or partition.leader_epoch != recovery.leader_epoch:
                del self._under_way[key]

    def questions(self, image: MetadataImage) -> dict[int, list[Key]]:
        """Whom to ask about which partitions: active brokers that have not answered."""
        found: dict[int, list[Key]] = {}
        for key, recovery in self._under_way.items():
            partition = _partition(image, key)
            for broker in () if partition is None else partition.replicas:
                if broker not in recovery.answers and image.cluster.is_active(broker):
                    found.setdefault(broker, []).append(key)
        return found

    def answered(self, broker: int, key: Key, info: LogInfo) -> None:
        """Take note of how far a replica is."""
        recovery = self._under_way.get(key)
        if recovery is None:
            return
        if info.leader_epoch > recovery.leader_epoch:
            del self._under_way[key]  # this controller is behind: what it knows is not what counts
        else:
            recovery.answers[broker] = info

    def decided(self, image: MetadataImage, now_ms: int) -> list[Chosen]:
        """The partitions for which enough is known: all replicas have answered, or time is up and some have."""
        found = []
        for key, recovery in self._under_way.items():
            partition = _partition(image, key)
            if partition is None or not recovery.answers:
                continue
            awaited = {
                replica for replica in partition.replicas if not recovery.asked_for or image.cluster.is_active(replica)
            }
            if now_ms >= recovery.ends_at_ms or recovery.answers.keys() >= awaited:
                usable = {
                    replica: info for replica, info in recovery.answers.items() if image.cluster.is_active(replica)
                }
                if usable:
                    found.append(Chosen(key, longest(usable)))
        return found


def _partition(image: MetadataImage, key: Key) -> PartitionImage | None:
    topic_id, index = key
    topic = image.topics.by_id.get(topic_id)
    partition = None if topic is None else topic.partitions.get(index)
    return partition if partition is not None and partition.leader == NO_LEADER else None
