"""SyncGroup (key 14): hand out and learn the assignment of a classic group."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, message, request, response, since


@message
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes


@request(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None
    protocol_type: Annotated[str | None, since(5), IGNORABLE] = None
    protocol_name: Annotated[str | None, since(5), IGNORABLE] = None
    assignments: list[SyncGroupRequestAssignment]


@response(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16
    protocol_type: Annotated[str | None, since(5), IGNORABLE] = None
    protocol_name: Annotated[str | None, since(5), IGNORABLE] = None
    assignment: bytes
