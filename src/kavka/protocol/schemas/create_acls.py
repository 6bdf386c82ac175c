"""CreateAcls (key 30): add access rules."""

from __future__ import annotations

from kavka.protocol.schema import Int8, Int16, Int32, message, request, response


@message
class AclCreation:
    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = 3
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@request(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation]


@message
class AclCreationResult:
    error_code: Int16
    error_message: str | None


@response(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]
