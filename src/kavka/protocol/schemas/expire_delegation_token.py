"""ExpireDelegationToken (key 40): end a delegation token early."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, Int64, request, response


@request(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes
    expiry_time_period_ms: Int64


@response(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
