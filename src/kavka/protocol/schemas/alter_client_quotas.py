"""AlterClientQuotas (key 49): change client quotas."""

from __future__ import annotations

from kavka.protocol.schema import Float64, Int16, Int32, message, request, response


@message
class EntityData:
    entity_type: str
    entity_name: str | None


@message
class OpData:
    key: str
    value: Float64
    remove: bool


@message
class RequestEntryData:
    entity: list[EntityData]
    ops: list[OpData]


@request(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[RequestEntryData]
    validate_only: bool


@message
class ResponseEntryData:
    error_code: Int16
    error_message: str | None
    entity: list[EntityData]


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntryData]
