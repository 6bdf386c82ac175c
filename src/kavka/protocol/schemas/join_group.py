"""JoinGroup (key 11): become a member of a classic group."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, message, null_since, request, response, since


@message
class JoinGroupRequestProtocol:
    name: str
    metadata: bytes


@request(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, since(1), IGNORABLE] = -1
    member_id: str
    group_instance_id: Annotated[str | None, since(5)] = None
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: Annotated[str | None, since(8), IGNORABLE] = None


@message
class JoinGroupResponseMember:
    member_id: str
    group_instance_id: Annotated[str | None, since(5), IGNORABLE] = None
    metadata: bytes


@response(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: Annotated[Int32, since(2), IGNORABLE] = 0
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, since(7), IGNORABLE] = None
    protocol_name: Annotated[str | None, null_since(7)]
    leader: str
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str
    members: list[JoinGroupResponseMember]
