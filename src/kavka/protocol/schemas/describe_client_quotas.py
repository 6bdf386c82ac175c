"""DescribeClientQuotas (key 48): show client quotas."""

from __future__ import annotations

from kavka.protocol.schema import Float64, Int8, Int16, Int32, message, request, response


@message
class ComponentData:
    entity_type: str
    match_type: Int8
    match: str | None


@request(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData]
    strict: bool


@message
class EntityData:
    entity_type: str
    entity_name: str | None


@message
class ValueData:
    key: str
    value: Float64


@message
class EntryData:
    entity: list[EntityData]
    values: list[ValueData]


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    entries: list[EntryData] | None
