"""The responses of the classic protocol, in the form that each version can carry."""

from __future__ import annotations

from kavka.coordinator.classic.live import LiveGroup
from kavka.protocol.schemas.join_group import JoinGroupResponse, JoinGroupResponseMember
from kavka.protocol.schemas.sync_group import SyncGroupResponse


def join_refused(error_code: int, member_id: str, api_version: int) -> JoinGroupResponse:
    """A JoinGroup response that says why not; versions before 7 have no null for "no protocol" (KIP-559)."""
    return JoinGroupResponse(
        error_code=error_code,
        protocol_name=None if api_version >= 7 else "",
        leader="",
        member_id=member_id,
        members=[],
    )


def join_accepted(
    group: LiveGroup,
    member_id: str,
    members: list[JoinGroupResponseMember],
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """A JoinGroup response of the present generation."""
    return JoinGroupResponse(
        error_code=0,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or "",
        leader=(leader or group.leader) or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def sync_refused(error_code: int) -> SyncGroupResponse:
    """A SyncGroup response that says why not."""
    return SyncGroupResponse(error_code=error_code, assignment=b"")


def sync_accepted(group: LiveGroup, assignment: bytes) -> SyncGroupResponse:
    """A SyncGroup response with a member's assignment."""
    return SyncGroupResponse(
        error_code=0, protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )
