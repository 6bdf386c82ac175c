"""DescribeDelegationToken (key 41): list delegation tokens."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import Int16, Int32, Int64, message, request, response, since


@message
class DescribeDelegationTokenOwner:
    principal_type: str
    principal_name: str


@request(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None


@message
class DescribedDelegationTokenRenewer:
    principal_type: str
    principal_name: str


@message
class DescribedDelegationToken:
    principal_type: str
    principal_name: str
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: str
    hmac: bytes
    renewers: list[DescribedDelegationTokenRenewer]


@response(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: Int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
