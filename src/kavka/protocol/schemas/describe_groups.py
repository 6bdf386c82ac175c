"""DescribeGroups (key 15): show classic groups and their members."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, message, request, response, since


@request(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str]
    include_authorized_operations: Annotated[bool, since(3)] = False


@message
class DescribedGroupMember:
    member_id: str
    group_instance_id: Annotated[str | None, since(4), IGNORABLE] = None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@message
class DescribedGroup:
    error_code: Int16
    error_message: Annotated[str | None, since(6)] = None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribedGroupMember]
    authorized_operations: Annotated[Int32, since(3)] = -2147483648


@response(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    groups: list[DescribedGroup]
