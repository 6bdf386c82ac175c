"""Heartbeat (key 12): stay a member of a classic group."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, request, response, since


@request(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None


@response(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16
