"""ListGroups (key 16): list the groups that a broker coordinates."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, fresh, message, request, response, since


@request(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: Annotated[list[str], since(4)] = fresh()
    types_filter: Annotated[list[str], since(5)] = fresh()


@message
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: Annotated[str, since(4), IGNORABLE] = ""
    group_type: Annotated[str, since(5), IGNORABLE] = ""


@response(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16
    groups: list[ListedGroup]
