"""AlterConfigs (key 33): replace the configs of resources."""

from __future__ import annotations

from kavka.protocol.schema import Int8, Int16, Int32, message, request, response


@message
class AlterableConfig:
    name: str
    value: str | None


@message
class AlterConfigsResource:
    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


@request(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: bool


@message
class AlterConfigsResourceResponse:
    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
