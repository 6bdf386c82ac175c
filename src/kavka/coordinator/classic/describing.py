"""How classic groups are shown: ListGroups, DescribeGroups."""

from __future__ import annotations

from typing import Any, Final

from kavka.coordinator.classic.live import GroupState, LiveGroup
from kavka.model.errors import GroupIdNotFound
from kavka.protocol.schemas.describe_groups import DescribedGroup, DescribedGroupMember
from kavka.protocol.schemas.list_groups import ListedGroup

NOBODY: Final[list[Any]] = []
"""The members of a group that is not there: one list for the thousands that may be asked for."""


DEAD = "Dead"


def listed(group: LiveGroup, group_type: str) -> ListedGroup:
    """A classic group as ListGroups shows it."""
    return ListedGroup(
        group_id=group.id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=group_type,
    )


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
        members=NOBODY,
    )
