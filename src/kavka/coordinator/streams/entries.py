"""The records of a streams group, made of its values; what has no order is written sorted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kavka.coordinator.assignors.sticky import Tasks
from kavka.coordinator.record import Record
from kavka.coordinator.streams.records import (
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetTaskIds,
    TaskIds,
)
from kavka.coordinator.streams.state import Member, StreamsGroup
from kavka.coordinator.streams.tasks import TaskSets, TasksSince


def epoch_entry(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> Record:
    """A group's epoch, and the topics, the topology and the settings that it stands for."""
    return Record(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[
                LastAssignmentConfig(key=key, value=value) for key, value in sorted(configs.items())
            ],
        ),
    )


def member_entry(group_id: str, member: Member) -> Record:
    """What a member said of itself."""
    return Record(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=member.user_endpoint,
            client_tags=[KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())],
        ),
    )


def topology_entry(group_id: str, value: StreamsGroupTopologyValue) -> Record:
    """The group's topology."""
    return Record(StreamsGroupTopologyKey(group_id=group_id), value)


def target_entry(group_id: str, member_id: str, target: TaskSets) -> Record:
    """What a member shall have."""
    return Record(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_target(target.active),
            standby_tasks=_target(target.standby),
            warmup_tasks=_target(target.warmup),
        ),
    )


def target_epoch_entry(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The epoch that the targets are for, and when they were worked out."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_entry(group_id: str, member: Member) -> Record:
    """What a member has, and how far it is."""
    assigned, revoking = member.assigned, member.revoking
    return Record(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=_since(assigned.active),
            standby_tasks=_plain(assigned.standby),
            warmup_tasks=_plain(assigned.warmup),
            active_tasks_pending_revocation=_since(revoking.active),
            standby_tasks_pending_revocation=_plain(revoking.standby),
            warmup_tasks_pending_revocation=_plain(revoking.warmup),
        ),
    )


def without_member(group_id: str, member_id: str) -> Iterator[Record]:
    """A member is gone."""
    yield Record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))
    yield Record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))
    yield Record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def without_group(group_id: str, group: StreamsGroup) -> Iterator[Record]:
    """A group is gone, with all that belongs to it."""
    for id_ in group.members:
        yield Record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=id_))
    for id_ in {**group.members, **group.targets}:
        yield Record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=id_))
    yield Record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id))
    for id_ in group.members:
        yield Record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=id_))
    yield Record(StreamsGroupMetadataKey(group_id=group_id))
    yield Record(StreamsGroupTopologyKey(group_id=group_id))


def _target(tasks: Tasks) -> list[TargetTaskIds]:
    return [TargetTaskIds(subtopology_id=id_, partitions=sorted(tasks[id_])) for id_ in sorted(tasks)]


def _plain(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=id_, partitions=sorted(tasks[id_]), assignment_epochs=[]) for id_ in sorted(tasks)]


def _since(tasks: TasksSince) -> list[TaskIds]:
    found = []
    for id_ in sorted(tasks):
        partitions = sorted(tasks[id_])
        epochs = [tasks[id_][each] for each in partitions]
        found.append(TaskIds(subtopology_id=id_, partitions=partitions, assignment_epochs=epochs))
    return found
