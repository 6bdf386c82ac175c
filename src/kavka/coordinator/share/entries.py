"""The records of a share group, made of its values; what has no order is written sorted."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.record import Record
from kavka.coordinator.share.records import (
    DeletingTopic,
    ShareAssignmentTopic,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartitionsInfo,
)
from kavka.coordinator.share.state import Member, ShareGroup, StatePartitionMetadata, StatesByTopic

STABLE = 0
"""The only state that members of share groups are in."""


def epoch_entry(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """A group's epoch, and the topics that it stands for."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ShareGroupMetadataKey(group_id=group_id), value)


def member_entry(group_id: str, member: Member) -> Record:
    """What a member said of itself."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return Record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.id), value)


def target_entry(group_id: str, member_id: str, target: Partitions) -> Record:
    """What a member shall have."""
    written = [ShareAssignmentTopic(topic_id=id_, partitions=sorted(target[id_])) for id_ in sorted(target)]
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=written)
    return Record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_entry(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The epoch that the targets are for, and when they were worked out."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_entry(group_id: str, member: Member) -> Record:
    """What a member has, and how far it is."""
    assigned = member.assigned
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=[
            ShareAssignmentTopic(topic_id=id_, partitions=sorted(assigned[id_])) for id_ in sorted(assigned)
        ],
    )
    return Record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id), value)


def states_entry(group_id: str, states: StatePartitionMetadata) -> Record:
    """How far the states of the group's partitions are."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_written(states.initializing),
        initialized_topics=_written(states.initialized),
        deleting_topics=[
            DeletingTopic(topic_id=id_, topic_name=states.deleting[id_]) for id_ in sorted(states.deleting)
        ],
    )
    return Record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def without_member(group_id: str, member_id: str) -> Iterator[Record]:
    """A member is gone."""
    yield Record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))
    yield Record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))
    yield Record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def without_group(group_id: str, group: ShareGroup) -> Iterator[Record]:
    """A group is gone, with all that belongs to it."""
    for id_ in {**group.members, **group.targets}:
        yield from without_member(group_id, id_)
    yield Record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id))
    yield Record(ShareGroupStatePartitionMetadataKey(group_id=group_id))
    yield Record(ShareGroupMetadataKey(group_id=group_id))


def _written(states: StatesByTopic) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=id_, topic_name=states[id_].name, partitions=sorted(states[id_].partitions))
        for id_ in sorted(states)
    ]
