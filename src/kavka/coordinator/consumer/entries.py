"""The records of a consumer group, made of its values; what has no order is written sorted."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentAssignmentTopic,
    TargetAssignmentTopic,
)
from kavka.coordinator.consumer.state import Assigned, ConsumerGroup, Member, ResolvedRegex
from kavka.coordinator.record import Record


def epoch_entry(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """A group's epoch, and the topics that it stands for."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_entry(group_id: str, member: Member) -> Record:
    """What a member said of itself."""
    return Record(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=member.classic,
        ),
    )


def target_entry(group_id: str, member_id: str, target: Partitions) -> Record:
    """What a member shall have."""
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TargetAssignmentTopic(topic_id=topic_id, partitions=sorted(target[topic_id]))
                for topic_id in sorted(target)
            ]
        ),
    )


def target_epoch_entry(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The epoch that the targets are for, and when they were worked out."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_entry(group_id: str, member: Member) -> Record:
    """What a member has, and how far it is."""
    return Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_written(member.assigned),
            partitions_pending_revocation=_written(member.revoking),
        ),
    )


def regex_entry(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    """The topics that a pattern matches."""
    return Record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def without_regex(group_id: str, regex: str) -> Record:
    """Nobody asks for a pattern any more."""
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def without_partition_metadata(group_id: str) -> Record:
    """The hash stands for what Kafka 4.0 wrote here."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def without_member(group_id: str, member_id: str) -> Iterator[Record]:
    """A member is gone."""
    yield Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))
    yield Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))
    yield Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def without_group(group_id: str, group: ConsumerGroup) -> Iterator[Record]:
    """A group is gone, with all that belongs to it."""
    for id_ in group.members:
        yield Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=id_))
    for id_ in {**group.members, **group.targets}:
        yield Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=id_))
    yield Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
    for id_ in group.members:
        yield Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=id_))
    for regex in group.resolved:
        yield without_regex(group_id, regex)
    yield without_partition_metadata(group_id)
    yield Record(ConsumerGroupMetadataKey(group_id=group_id))


def _written(assigned: Assigned) -> list[CurrentAssignmentTopic]:
    found = []
    for topic_id in sorted(assigned):
        partitions = sorted(assigned[topic_id])
        epochs = [assigned[topic_id][each] for each in partitions]
        found.append(CurrentAssignmentTopic(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs))
    return found
