"""What a StreamsGroupHeartbeat must look like, whatever the group is like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.coordinator.assignors.sticky import SubtopologySpec
from kavka.coordinator.streams.state import LEFT_SEAT
from kavka.model.errors import InvalidRequest, StreamsInvalidTopology
from kavka.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds, Topology


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise InvalidRequest or StreamsInvalidTopology for a request that no group could accept."""
    _check_supported(request)
    if not request.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    if not request.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch == 0:
        _check_first(request)
    elif request.member_epoch == LEFT_SEAT:
        raise InvalidRequest("InstanceId can't be null.")
    elif request.member_epoch < LEFT_SEAT:
        raise InvalidRequest(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    said = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is not None for tasks in said) and any(tasks is None for tasks in said):
        raise InvalidRequest("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != 0 and request.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """Refuse what the protocol has room for and Kafka 4.3 does not do."""
    if request.instance_id is not None:
        raise InvalidRequest("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise InvalidRequest("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise InvalidRequest("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise InvalidRequest("WarmupTasks are not supported yet.")
    if request.topology is not None and any(
        subtopology.source_topic_regex for subtopology in request.topology.subtopologies
    ):
        raise InvalidRequest("Regular expressions for source topics are not supported yet.")


def _check_first(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.active_tasks:
        raise InvalidRequest("ActiveTasks must be empty when (re-)joining.")
    if request.standby_tasks:
        raise InvalidRequest("StandbyTasks must be empty when (re-)joining.")
    if request.topology is None:
        raise InvalidRequest("Topology must be non-null when (re-)joining.")
    _check_changelogs(request.topology)


def _check_changelogs(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}."
                )


def check_tasks(subtopologies: Mapping[str, SubtopologySpec], named: Iterable[TaskIds] | None) -> None:
    """Raise InvalidRequest where a member names a task that there is not."""
    for task_ids in named or ():
        subtopology = subtopologies.get(task_ids.subtopology_id)
        if subtopology is None:
            raise InvalidRequest(f"Subtopology {task_ids.subtopology_id} does not exist in the topology.")
        for partition in task_ids.partitions:
            if not 0 <= partition < subtopology.tasks:
                raise InvalidRequest(
                    f"Task {partition} for subtopology {task_ids.subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {subtopology.tasks}"
                )
