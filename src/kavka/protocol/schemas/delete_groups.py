"""DeleteGroups (key 42): delete empty groups."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, message, request, response


@request(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str]


@message
class DeletableGroupResult:
    group_id: str
    error_code: Int16


@response(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
