"""DescribeUserScramCredentials (key 50): show which SCRAM credentials users have."""

from __future__ import annotations

from kavka.protocol.schema import Int8, Int16, Int32, message, request, response


@message
class UserName:
    name: str


@request(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None


@message
class CredentialInfo:
    mechanism: Int8
    iterations: Int32


@message
class DescribeUserScramCredentialsResult:
    user: str
    error_code: Int16
    error_message: str | None
    credential_infos: list[CredentialInfo]


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    results: list[DescribeUserScramCredentialsResult]
