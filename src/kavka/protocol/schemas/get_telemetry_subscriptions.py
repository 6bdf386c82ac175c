"""GetTelemetrySubscriptions (key 71): a client asks which metrics to push (KIP-714)."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int8, Int16, Int32, request, response


@request(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid


@response(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: bool
    requested_metrics: list[str]
