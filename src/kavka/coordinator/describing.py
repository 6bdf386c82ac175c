"""How groups are shown: ListGroups, DescribeGroups, ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.classic.embedded import PROTOCOL_TYPE
from kavka.coordinator.classic.live import GroupState, LiveGroup
from kavka.coordinator.consumer.state import NO_PARTITIONS, Assigned, ConsumerGroup, Member
from kavka.coordinator.topics import Topics
from kavka.model.errors import GroupIdNotFound
from kavka.model.types import Uuid
from kavka.protocol.schemas import consumer_group_describe as consumer_schema
from kavka.protocol.schemas.describe_groups import DescribedGroup, DescribedGroupMember
from kavka.protocol.schemas.list_groups import ListedGroup

DEAD = "Dead"


def listed(group_id: str, group: LiveGroup | ConsumerGroup) -> ListedGroup:
    """A group as ListGroups shows it."""
    if isinstance(group, ConsumerGroup):
        return ListedGroup(
            group_id=group_id, protocol_type=PROTOCOL_TYPE, group_state=group.state, group_type="consumer"
        )
    return ListedGroup(
        group_id=group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type="classic",
    )


def is_wanted(group: ListedGroup, states: set[str], types: set[str]) -> bool:
    """Whether a group passes the filters of ListGroups; an empty filter lets all pass."""
    return (not states or group.group_state.lower() in states) and (not types or group.group_type in types)


def filter_of(names: Iterable[str]) -> set[str]:
    """A filter of ListGroups, which does not look at case."""
    return {name.strip().lower() for name in names}


def described(group: LiveGroup) -> DescribedGroup:
    """A classic group as DescribeGroups shows it; what members said for the protocol only when there is one."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def not_described(group_id: str, api_version: int, why: str) -> DescribedGroup:
    """A group that is not there, or no classic one; before version 6 that is no error."""
    return DescribedGroup(
        error_code=GroupIdNotFound.code if api_version >= 6 else 0,
        error_message=why if api_version >= 6 else None,
        group_id=group_id,
        group_state=DEAD,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def described_consumer(
    group_id: str, group: ConsumerGroup, topics: Topics, default_assignor: str
) -> consumer_schema.DescribedGroup:
    """A consumer group as ConsumerGroupDescribe shows it."""
    return consumer_schema.DescribedGroup(
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


def not_described_consumer(group_id: str, why: str) -> consumer_schema.DescribedGroup:
    """A group that is not there, or no consumer group."""
    return consumer_schema.DescribedGroup(
        error_code=GroupIdNotFound.code,
        error_message=why,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _described_member(member: Member, target: Partitions, topics: Topics) -> consumer_schema.Member:
    return consumer_schema.Member(
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


def _assignment(assigned: Mapping[Uuid, Iterable[int]], topics: Topics) -> consumer_schema.Assignment:
    return consumer_schema.Assignment(
        topic_partitions=[
            consumer_schema.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assigned.items())
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
