"""How share groups are shown: ListGroups, ShareGroupDescribe, and what a heartbeat says of an assignment."""

from __future__ import annotations

from typing import Any, Final

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.share.state import Member, ShareGroup
from kavka.coordinator.topics import Topics
from kavka.model.errors import GroupIdNotFound
from kavka.protocol.schemas import share_group_heartbeat as heartbeat
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.share_group_describe import Assignment, DescribedGroup, TopicPartitions
from kavka.protocol.schemas.share_group_describe import Member as DescribedMember

NOBODY: Final[list[Any]] = []
"""The members of a group that is not there: one list for the thousands that may be asked for."""


PROTOCOL_TYPE: Final = "share"
ASSIGNOR: Final = "simple"


def listed(group_id: str, group: ShareGroup, group_type: str) -> ListedGroup:
    """A share group as ListGroups shows it."""
    return ListedGroup(group_id=group_id, protocol_type=PROTOCOL_TYPE, group_state=group.state, group_type=group_type)


def described(group_id: str, group: ShareGroup, topics: Topics) -> DescribedGroup:
    """A share group as ShareGroupDescribe shows it."""
    return DescribedGroup(
        error_code=0,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_described_member(member, topics) for member in group.members.values()],
    )


def not_described(group_id: str, why: str) -> DescribedGroup:
    """A group that is not there, or no share group."""
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


def assignment(assigned: Partitions) -> heartbeat.Assignment:
    """What a member is told that it has."""
    return heartbeat.Assignment(
        topic_partitions=[
            heartbeat.TopicPartitions(topic_id=id_, partitions=sorted(assigned[id_])) for id_ in sorted(assigned)
        ]
    )


def _described_member(member: Member, topics: Topics) -> DescribedMember:
    return DescribedMember(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=id_, topic_name=name, partitions=sorted(partitions))
                for id_, partitions in sorted(member.assigned.items())
                if (name := topics.name_of(id_)) is not None
            ]
        ),
    )
