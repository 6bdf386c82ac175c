"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single configs."""

from __future__ import annotations

from kavka.protocol.schema import Int8, Int16, Int32, message, request, response


@message
class AlterableConfig:
    name: str
    config_operation: Int8
    value: str | None


@message
class AlterConfigsResource:
    resource_type: Int8
    resource_name: str
    configs: list[AlterableConfig]


@request(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: bool


@message
class AlterConfigsResourceResponse:
    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
