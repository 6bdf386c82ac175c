"""DescribeAcls (key 29): list access rules that match a filter."""

from __future__ import annotations

from kavka.protocol.schema import Int8, Int16, Int32, message, request, response


@request(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message
class AclDescription:
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class DescribeAclsResource:
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = 3
    acls: list[AclDescription]


@response(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    resources: list[DescribeAclsResource]
