"""DescribeConfigs (key 32): show the configs of topics, brokers and other resources."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int8, Int16, Int32, message, request, response, since


@message
class DescribeConfigsResource:
    resource_type: Int8
    resource_name: str
    configuration_keys: list[str] | None


@request(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: Annotated[bool, since(3)] = False


@message
class DescribeConfigsSynonym:
    name: str
    value: str | None
    source: Int8


@message
class DescribeConfigsResourceResult:
    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Annotated[Int8, since(3), IGNORABLE] = 0
    documentation: Annotated[str | None, since(3), IGNORABLE] = ""


@message
class DescribeConfigsResult:
    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


@response(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]
