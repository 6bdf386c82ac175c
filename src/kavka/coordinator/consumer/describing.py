"""How consumer groups are shown: ListGroups, ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.classic.embedded import PROTOCOL_TYPE
from kavka.coordinator.consumer.state import NO_PARTITIONS, Assigned, ConsumerGroup, Member
from kavka.coordinator.topics import Topics
from kavka.model.errors import GroupIdNotFound
from kavka.model.types import Uuid
from kavka.protocol.schemas.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from kavka.protocol.schemas.consumer_group_describe import Member as DescribedMember
from kavka.protocol.schemas.list_groups import ListedGroup

NOBODY: Final[list[Any]] = []
"""The members of a group that is not there: one list for the thousands that may be asked for."""


def listed(group_id: str, group: ConsumerGroup, group_type: str) -> ListedGroup:
    """A consumer group as ListGroups shows it."""
    return ListedGroup(group_id=group_id, protocol_type=PROTOCOL_TYPE, group_state=group.state, group_type=group_type)


def described(group_id: str, group: ConsumerGroup, topics: Topics, default_assignor: str) -> DescribedGroup:
    """A consumer group as ConsumerGroupDescribe shows it."""
    return DescribedGroup(
        error_code=0,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor or default_assignor,
        members=[
            _described_member(member, group.targets.get(id_, NO_PARTITIONS), topics)
            for id_, member in group.members.items()
        ],
    )


def not_described(group_id: str, why: str) -> DescribedGroup:
    """A group that is not there, or no consumer group."""
    return DescribedGroup(
        error_code=GroupIdNotFound.code,
        error_message=why,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=NOBODY,
    )


def _described_member(member: Member, target: Partitions, topics: Topics) -> DescribedMember:
    return DescribedMember(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        # What a member is giving back is its own until it has.
        assignment=_assignment(_together(member.assigned, member.revoking), topics),
        target_assignment=_assignment(target, topics),
        member_type=1 if member.classic is None else 0,
    )


def _together(*assigned: Assigned) -> dict[Uuid, set[int]]:
    found: dict[Uuid, set[int]] = {}
    for each in assigned:
        for topic_id, partitions in each.items():
            found.setdefault(topic_id, set()).update(partitions)
    return found


def _assignment(assigned: Mapping[Uuid, Iterable[int]], topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assigned.items())
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
