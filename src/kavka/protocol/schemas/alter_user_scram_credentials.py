"""AlterUserScramCredentials (key 51): add and remove SCRAM credentials."""

from __future__ import annotations

from kavka.protocol.schema import Int8, Int16, Int32, message, request, response


@message
class ScramCredentialDeletion:
    name: str
    mechanism: Int8


@message
class ScramCredentialUpsertion:
    name: str
    mechanism: Int8
    iterations: Int32
    salt: bytes
    salted_password: bytes


@request(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@message
class AlterUserScramCredentialsResult:
    user: str
    error_code: Int16
    error_message: str | None


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
