"""PushTelemetry (key 72): a client pushes metrics (KIP-714)."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int8, Int16, Int32, request, response


@request(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: bool
    compression_type: Int8
    metrics: bytes


@response(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
