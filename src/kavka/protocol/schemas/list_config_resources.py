"""ListConfigResources (key 74): list the resources that have configs."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int8, Int16, Int32, fresh, message, request, response, since


@request(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: Annotated[list[Int8], since(1)] = fresh()


@message
class ConfigResource:
    resource_name: str
    resource_type: Annotated[Int8, since(1), IGNORABLE] = 16


@response(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: list[ConfigResource]
