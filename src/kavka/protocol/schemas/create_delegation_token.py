"""CreateDelegationToken (key 38): create a delegation token."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import Int16, Int32, Int64, message, request, response, since


@message
class CreatableRenewers:
    principal_type: str
    principal_name: str


@request(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: Annotated[str | None, since(3)] = ""
    owner_principal_name: Annotated[str | None, since(3)] = ""
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


@response(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: Int16
    principal_type: str
    principal_name: str
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: str
    hmac: bytes
    throttle_time_ms: Int32 = 0
