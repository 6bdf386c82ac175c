"""What is known of a streams group beside its members: its topology, and who has which of its tasks."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.model.types import TopicPartition
from kavka.protocol.schemas.streams_group_describe import DescribedGroup, Member, TaskIds


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """A member that has a task, by the process that it is a thread of."""

    member: str
    process_id: str
    client_id: str


@dataclass(frozen=True, slots=True)
class StreamsTask:
    """A task of a subtopology: the member that has it active, and those that have a standby."""

    partition: int
    active: TaskOwner | None
    standby: tuple[TaskOwner, ...]
    next: TaskOwner | None = None
    """The member that shall have it active, as long as it has not."""


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A part of a topology; internal topics with their partitions, 0 while that is not decided."""

    id: str
    source_topics: tuple[str, ...]
    repartition_source_topics: dict[str, int]
    repartition_sink_topics: tuple[str, ...]
    changelog_topics: dict[str, int]
    tasks: tuple[StreamsTask, ...]


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """The topology of a streams group, with its tasks as far as somebody has them or shall have them."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]


def topology_of(group: DescribedGroup) -> StreamsTopology | None:
    """The topology in an answer to StreamsGroupDescribe."""
    if group.topology is None:
        return None
    active: dict[tuple[str, int], TaskOwner] = {}
    standby: dict[tuple[str, int], list[TaskOwner]] = {}
    awaited: dict[tuple[str, int], TaskOwner] = {}
    for member in group.members:
        owner = TaskOwner(member.member_id, member.process_id, member.client_id)
        for task in _tasks(member.assignment.active_tasks):
            active[task] = owner
        for task in _tasks(member.assignment.standby_tasks):
            standby.setdefault(task, []).append(owner)
        for task in _tasks(member.target_assignment.active_tasks):
            awaited[task] = owner
    awaited = {task: owner for task, owner in awaited.items() if owner != active.get(task)}
    return StreamsTopology(
        group.topology.epoch,
        tuple(
            StreamsSubtopology(
                id=subtopology.subtopology_id,
                source_topics=tuple(subtopology.source_topics),
                repartition_source_topics={
                    topic.name: topic.partitions for topic in subtopology.repartition_source_topics
                },
                repartition_sink_topics=tuple(subtopology.repartition_sink_topics),
                changelog_topics={topic.name: topic.partitions for topic in subtopology.state_changelog_topics},
                tasks=tuple(
                    StreamsTask(task[1], active.get(task), tuple(standby.get(task, ())), awaited.get(task))
                    for task in sorted({*active, *standby, *awaited})
                    if task[0] == subtopology.subtopology_id
                ),
            )
            for subtopology in group.topology.subtopologies or ()
        ),
    )


def partitions_of(member: Member, topology: StreamsTopology | None) -> frozenset[TopicPartition]:
    """The assignment of a member: the source-topic partitions of its active tasks."""
    parts = {} if topology is None else {subtopology.id: subtopology for subtopology in topology.subtopologies}
    return frozenset(
        TopicPartition(topic, partition)
        for id_, partition in _tasks(member.assignment.active_tasks)
        if id_ in parts
        for topic in (*parts[id_].source_topics, *parts[id_].repartition_source_topics)
    )


def _tasks(named: list[TaskIds]) -> list[tuple[str, int]]:
    return [(task_ids.subtopology_id, partition) for task_ids in named for partition in task_ids.partitions]
