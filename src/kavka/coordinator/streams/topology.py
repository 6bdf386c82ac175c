"""The topology of a streams group, and what it takes of the cluster's topics.

A topology is what its first member said of it. From that and the topics that are there follows how many tasks each
subtopology has, which internal topics are missing and how many partitions they must have; or why none of that can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kavka.coordinator.assignors.sticky import SubtopologySpec
from kavka.coordinator.streams.records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopologyTopic,
)
from kavka.model.errors import StreamsInvalidTopology, UnknownServerError

CountOf = Callable[[str], int | None]
"""How many partitions a topic has; None if it is not there."""

SHOWN_TOPICS: Final = 3
"""How many topics are named where many could be."""


class StreamsStatus(IntEnum):
    """What a member is told beside its tasks, by the code of the protocol."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopologyError(Exception):
    """The topics do not allow the topology: no error of the request, but a status of the group."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class StreamsTopology:
    """A topology, as it is stored; equal to another that says the same of subtopologies in any order."""

    __slots__ = ("epoch", "required", "source_of", "subtopologies")

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.epoch = value.epoch
        self.subtopologies: dict[str, Subtopology] = {
            subtopology.subtopology_id: subtopology
            for subtopology in sorted(value.subtopologies, key=lambda row: row.subtopology_id)
        }
        self.source_of: dict[str, str] = {}
        """Source topics, repartition topics among them, and the subtopology that reads each."""
        self.required: set[str] = set()
        """All topics that the topology reads, or writes state to."""
        for id_, subtopology in self.subtopologies.items():
            self.source_of |= dict.fromkeys(source_topics(subtopology), id_)
            self.required.update(
                source_topics(subtopology), (topic.name for topic in subtopology.state_changelog_topics)
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamsTopology):
            return NotImplemented
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    __hash__ = None  # type: ignore[assignment]


class ConfiguredInternalTopic(NamedTuple):
    """An internal topic as it must be; -1 leaves the number of replicas to the cluster."""

    name: str
    partitions: int
    replication: int
    configs: Mapping[str, str]


class ConfiguredTopology(NamedTuple):
    """A topology with the topics that are there: ready, or why it is not."""

    subtopologies: Mapping[str, SubtopologySpec]
    """By id, in order; empty unless at most internal topics are missing."""
    counts: Mapping[str, int] = {}
    """How many partitions each internal topic must have."""
    missing: Sequence[ConfiguredInternalTopic] = ()
    trouble: TopologyError | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.trouble is None


def read_topology(said: Any) -> StreamsGroupTopologyValue:
    """The topology in a request, as it is stored; raises UnknownServerError, as Kafka does, for what is none."""
    if said.epoch < 0:
        raise UnknownServerError("The topology epoch is negative.")
    if len({subtopology.subtopology_id for subtopology in said.subtopologies}) < len(said.subtopologies):
        raise UnknownServerError("Two subtopologies have the same id.")
    return StreamsGroupTopologyValue(
        epoch=said.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=subtopology.source_topics,
                source_topic_regex=subtopology.source_topic_regex,
                state_changelog_topics=[_read_topic(topic) for topic in subtopology.state_changelog_topics],
                repartition_sink_topics=subtopology.repartition_sink_topics,
                repartition_source_topics=[_read_topic(topic) for topic in subtopology.repartition_source_topics],
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in subtopology.copartition_groups
                ],
            )
            for subtopology in said.subtopologies
        ],
    )


def _read_topic(topic: Any) -> TopologyTopic:
    return TopologyTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs],
    )


def source_topics(subtopology: Subtopology) -> list[str]:
    """The topics that a subtopology reads, those that the group makes for itself last."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


# -- the topology with the topics that are there ------------------------------------------------------


def configure(topology: StreamsTopology, count_of: CountOf) -> ConfiguredTopology:
    """Work out tasks and internal topics; raises StreamsInvalidTopology for what no topics could make right."""
    try:
        return _Configuration(topology, count_of).run()
    except TopologyError as trouble:
        return ConfiguredTopology({}, trouble=trouble)


class _Configuration:
    """The numbers of partitions, as far as they are decided."""

    def __init__(self, topology: StreamsTopology, count_of: CountOf) -> None:
        self._subtopologies = topology.subtopologies
        self._there = count_of
        self._decided: dict[str, int] = {}

    def run(self) -> ConfiguredTopology:
        """Decide: repartition topics, then what must be partitioned alike, then changelogs."""
        gone = {name for subtopology in self._all() for name in subtopology.source_topics if self._there(name) is None}
        if gone:
            raise TopologyError(
                StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {_first_few(sorted(gone))} are missing."
            )
        self._decided = self._repartition_counts()
        fixed = {
            topic.name
            for subtopology in self._all()
            for topic in subtopology.repartition_source_topics
            if topic.partitions
        }
        flexible = {
            topic.name
            for subtopology in self._all()
            for topic in subtopology.repartition_source_topics
            if not topic.partitions
        }
        for subtopology in self._all():
            for group in subtopology.copartition_groups:
                self._decided |= self._partitioned_alike(_copartitioned(subtopology, group), fixed, flexible)
        tasks = {id_: self._tasks(subtopology) for id_, subtopology in self._subtopologies.items()}
        for id_, subtopology in self._subtopologies.items():
            self._decided |= {topic.name: tasks[id_] for topic in subtopology.state_changelog_topics}
        return self._configured(tasks)

    def _all(self) -> Collection[Subtopology]:
        return self._subtopologies.values()

    def _count(self, topic: str) -> int:
        found = self._there(topic)
        found = self._decided.get(topic) if found is None else found
        if found is None:
            raise UnknownServerError(f"The number of partitions of {topic} is not known.")
        return found

    def _tasks(self, subtopology: Subtopology) -> int:
        sources = source_topics(subtopology)
        if not sources:
            raise StreamsInvalidTopology(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(self._count(topic) for topic in sources)

    # -- repartition topics -----------------------------------------------------------------------

    def _repartition_counts(self) -> dict[str, int]:
        """What the topology says, else as many as the largest topic of a subtopology that writes to it."""
        counts = {
            topic.name: topic.partitions
            for subtopology in self._all()
            for topic in subtopology.repartition_source_topics
            if topic.partitions
        }
        needed, progress = True, True
        while needed:
            if not progress:
                raise StreamsInvalidTopology(
                    "Failed to compute number of partitions for all repartition topics. "
                    "There may be loops in the topology that cannot be resolved."
                )
            needed = progress = False
            for subtopology in self._all():
                for sink in subtopology.repartition_sink_topics:
                    if sink in counts:
                        continue
                    count = self._largest_source(subtopology, counts)
                    if count is None:
                        needed = True
                    else:
                        counts[sink] = count
                        progress = True
        if any(
            topic.name not in counts for subtopology in self._all() for topic in subtopology.repartition_source_topics
        ):
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because "
                "a repartition source topic is never used as a sink topic."
            )
        return counts

    def _largest_source(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        found = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
        found += [self._there(topic) for topic in subtopology.source_topics]
        return max((count for count in found if count is not None), default=None)

    # -- topics that must be partitioned alike ------------------------------------------------------

    def _partitioned_alike(self, topics: Collection[str], fixed: set[str], flexible: set[str]) -> dict[str, int]:
        """The number of partitions of the repartition topics of a group that is read together."""
        if not topics:
            return {}
        internal = {name: self._count(name) for name in sorted(topics) if name in fixed or name in flexible}
        external = {name: self._count(name) for name in sorted(topics) if name not in internal}
        if external:
            count = _same(external, external)
        elif fixed:
            count = _same({name: self._count(name) for name in sorted(fixed)}, internal)
        else:
            count = max(internal.values())
        for name, before in internal.items():
            if name in fixed and before != count:
                raise TopologyError(
                    StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{before}] of repartition topic [{name}] "
                    f"doesn't match number of partitions [{count}] of the source topic.",
                )
        return dict.fromkeys(internal, count)

    # -- what comes of it ---------------------------------------------------------------------------

    def _configured(self, tasks: Mapping[str, int]) -> ConfiguredTopology:
        internal: dict[str, ConfiguredInternalTopic] = {}
        for subtopology in self._all():
            for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
                internal[topic.name] = ConfiguredInternalTopic(
                    topic.name,
                    topic.partitions or self._decided[topic.name],
                    topic.replication_factor or -1,
                    {config.key: config.value for config in topic.topic_configs},
                )
        missing = []
        for name, wanted in sorted(internal.items()):
            found = self._there(name)
            if found is None:
                missing.append(wanted)
            elif found != wanted.partitions:
                raise TopologyError(
                    StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: "
                    f"expected {wanted.partitions}, found {found}",
                )
        trouble = None
        if missing:
            names = _first_few([topic.name for topic in missing])
            trouble = TopologyError(StreamsStatus.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
        return ConfiguredTopology(
            {id_: SubtopologySpec(tasks[id_], bool(subtopology.state_changelog_topics))
             for id_, subtopology in self._subtopologies.items()},
            {name: topic.partitions for name, topic in internal.items()},
            missing,
            trouble,
        )  # fmt: skip


def _copartitioned(subtopology: Subtopology, group: CopartitionGroup) -> set[str]:
    repartition = [topic.name for topic in subtopology.repartition_source_topics]
    chosen = [(subtopology.source_topics, group.source_topics), (repartition, group.repartition_source_topics)]
    if any(not 0 <= at < len(topics) for topics, places in chosen for at in places):
        raise UnknownServerError("A copartition group names a topic that the subtopology does not have.")
    return {topics[at] for topics, places in chosen for at in places}


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        named = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise TopologyError(
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{named}}}]",
        )
    return next(iter(counts.values()))


def _first_few(names: Sequence[str]) -> str:
    """Names, or the first few of them."""
    shown = ", ".join(names[:SHOWN_TOPICS])
    rest = len(names) - SHOWN_TOPICS
    return f"{shown} and {rest} additional topics" if rest > 0 else shown


def names_in(subtopologies: Iterable[Any]) -> list[str]:
    """Every topic that subtopologies name, each once, in order."""
    return list(
        dict.fromkeys(
            name
            for subtopology in subtopologies
            for name in (
                *subtopology.source_topics,
                *subtopology.repartition_sink_topics,
                *(topic.name for topic in subtopology.repartition_source_topics),
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )
    )
