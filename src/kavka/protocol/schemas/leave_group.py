"""LeaveGroup (key 13): end memberships of a classic group."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, fresh, message, request, response, since, until


@message
class MemberIdentity:
    member_id: str
    group_instance_id: str | None = None
    reason: Annotated[str | None, since(5), IGNORABLE] = None


@request(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: str
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = fresh()


@message
class MemberResponse:
    member_id: str
    group_instance_id: str | None
    error_code: Int16


@response(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16
    members: Annotated[list[MemberResponse], since(3)] = fresh()
