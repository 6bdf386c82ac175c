"""How streams groups are shown: ListGroups, StreamsGroupDescribe, and what a heartbeat says of tasks and endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kavka.coordinator.assignors.sticky import Tasks
from kavka.coordinator.streams.records import Subtopology, TopologyTopic
from kavka.coordinator.streams.state import Member, StreamsGroup
from kavka.coordinator.streams.tasks import NO_TASKS, HeldTasks, TaskSets
from kavka.coordinator.streams.topology import ConfiguredTopology, CountOf, StreamsTopology, source_topics
from kavka.model.errors import GroupIdNotFound
from kavka.protocol.schemas import streams_group_describe as describe
from kavka.protocol.schemas import streams_group_heartbeat as heartbeat
from kavka.protocol.schemas.list_groups import ListedGroup

NOBODY: Final[list[Any]] = []
"""The members of a group that is not there: one list for the thousands that may be asked for."""


PROTOCOL_TYPE: Final = "streams"

Places = dict[str, set[int]]
"""Partitions by topic."""


def listed(group_id: str, group: StreamsGroup, group_type: str) -> ListedGroup:
    """A streams group as ListGroups shows it."""
    return ListedGroup(group_id=group_id, protocol_type=PROTOCOL_TYPE, group_state=group.state, group_type=group_type)


def described(group_id: str, group: StreamsGroup, configured: ConfiguredTopology | None) -> describe.DescribedGroup:
    """A streams group as StreamsGroupDescribe shows it; a topology that is ready, with the partitions of its topics."""
    counts = configured.counts if configured is not None and configured.is_ready else {}
    return describe.DescribedGroup(
        error_code=0,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _topology(group.topology, counts),
        members=[_member(member, group.targets.get(id_, NO_TASKS)) for id_, member in group.members.items()],
    )


def not_described(group_id: str, why: str) -> describe.DescribedGroup:
    """A group that is not there, or no streams group."""
    return describe.DescribedGroup(
        error_code=GroupIdNotFound.code,
        error_message=why,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=NOBODY,
    )


def _topology(topology: StreamsTopology, counts: Mapping[str, int]) -> describe.Topology:
    return describe.Topology(
        epoch=topology.epoch,
        subtopologies=[_subtopology(subtopology, counts) for subtopology in topology.subtopologies.values()],
    )


def _subtopology(subtopology: Subtopology, counts: Mapping[str, int]) -> describe.Subtopology:
    return describe.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=list(_topics(subtopology.state_changelog_topics, counts)),
        repartition_source_topics=list(_topics(subtopology.repartition_source_topics, counts)),
    )


def _topics(topics: Iterable[TopologyTopic], counts: Mapping[str, int]) -> Iterator[describe.TopicInfo]:
    for topic in sorted(topics, key=lambda info: info.name):
        yield describe.TopicInfo(
            name=topic.name,
            partitions=counts.get(topic.name, topic.partitions),
            replication_factor=topic.replication_factor,
            topic_configs=[describe.KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
        )


def _member(member: Member, target: TaskSets) -> describe.Member:
    endpoint = member.user_endpoint
    return describe.Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else describe.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[describe.KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned.sets),
        target_assignment=_assignment(target),
        is_classic=False,
    )


def _assignment(tasks: TaskSets) -> describe.Assignment:
    active, standby, warmup = (
        [describe.TaskIds(subtopology_id=id_, partitions=sorted(each[id_])) for id_ in sorted(each)] for each in tasks
    )
    return describe.Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


# -- in heartbeats ------------------------------------------------------------------------------------


def task_ids(tasks: Mapping[str, Iterable[int]]) -> list[heartbeat.TaskIds]:
    """Tasks as a heartbeat says them."""
    return [heartbeat.TaskIds(subtopology_id=id_, partitions=sorted(tasks[id_])) for id_ in sorted(tasks)]


def endpoints(
    members: Iterable[Member], topology: StreamsTopology, count_of: CountOf
) -> list[heartbeat.EndpointToPartitions]:
    """Where the state of which partitions can be asked for: what interactive queries go by.

    The threads of a process have one endpoint, and one row. Kafka has a row for each thread, of which its clients keep
    the last only.
    """
    found: dict[tuple[str, int], tuple[Places, Places]] = {}
    for member in members:
        if member.user_endpoint is not None:
            active, standby = found.setdefault((member.user_endpoint.host, member.user_endpoint.port), ({}, {}))
            _add_partitions(active, member.assigned.sets.active, topology, count_of)
            _add_partitions(standby, member.assigned.standby, topology, count_of)
    return [
        heartbeat.EndpointToPartitions(
            user_endpoint=heartbeat.Endpoint(host=host, port=port),
            active_partitions=_partitions(active),
            standby_partitions=_partitions(standby),
        )
        for (host, port), (active, standby) in found.items()
    ]


def _add_partitions(places: Places, tasks: Tasks, topology: StreamsTopology, count_of: CountOf) -> None:
    for id_ in tasks:
        subtopology = topology.subtopologies.get(id_)
        for topic in source_topics(subtopology) if subtopology is not None else ():
            count = count_of(topic)
            if count is not None:
                # As in Kafka a topic with fewer partitions than there are tasks has the first ones only.
                places.setdefault(topic, set()).update(sorted(tasks[id_])[:count])


def _partitions(places: Places) -> list[heartbeat.TopicPartition]:
    return [heartbeat.TopicPartition(topic=topic, partitions=sorted(places[topic])) for topic in sorted(places)]


def said_to_have(held: HeldTasks, request: heartbeat.StreamsGroupHeartbeatRequest) -> bool:
    """Whether a member says that it has exactly this."""
    named = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is None for tasks in named):
        return False
    said = [{row.subtopology_id: set(row.partitions) for row in tasks or () if row.partitions} for tasks in named]
    return said == [{id_: set(partitions) for id_, partitions in tasks.items()} for tasks in held.sets]
