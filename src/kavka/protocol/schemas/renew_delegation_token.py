"""RenewDelegationToken (key 39): prolong a delegation token."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, Int64, request, response


@request(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes
    renew_period_ms: Int64


@response(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
