"""PushTelemetry: v0.

Behaviour:  (KIP-714) what the client measured goes onto this node's page of metrics, with the client's names as labels.
Errors:     INVALID_REQUEST without an instance id or after a terminating push, THROTTLING_QUOTA_EXCEEDED before the
            interval is over, UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE; INVALID_RECORD
            for what cannot be decompressed within telemetry.max.bytes or is no OTLP.
"""

from __future__ import annotations

from kavka.broker.client_telemetry import ClientTelemetry
from kavka.broker.context import Context
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.protocol.schemas.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


@handler(PushTelemetryRequest, needs=NOTHING)
async def push_telemetry(
    request: PushTelemetryRequest, ctx: Context, telemetry: ClientTelemetry
) -> PushTelemetryResponse:
    """Take a client's metrics."""
    await telemetry.push(request, ctx)
    return PushTelemetryResponse(error_code=0)
