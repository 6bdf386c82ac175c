"""GetTelemetrySubscriptions: v0.

Behaviour:  (KIP-714) gives a client an instance id if it has none, the metrics that the matching subscriptions ask
            for, and the shortest of their intervals; a changed subscription is told at once.
Errors:     THROTTLING_QUOTA_EXCEEDED before the interval is over.
"""

from __future__ import annotations

from kavka.broker.client_telemetry import ClientTelemetry
from kavka.broker.context import Context
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.protocol.schemas.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kavka.telemetry.client_metrics import COMPRESSION_TYPES


@handler(GetTelemetrySubscriptionsRequest, needs=NOTHING)
async def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, ctx: Context, telemetry: ClientTelemetry
) -> GetTelemetrySubscriptionsResponse:
    """Tell a client which metrics to push, and how often."""
    answer = telemetry.ask(request.client_instance_id, ctx)
    return GetTelemetrySubscriptionsResponse(
        error_code=0,
        client_instance_id=answer.instance_id,
        subscription_id=answer.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=answer.interval_ms,
        telemetry_max_bytes=telemetry.clients.max_bytes,
        delta_temporality=True,
        requested_metrics=list(answer.metrics),
    )
