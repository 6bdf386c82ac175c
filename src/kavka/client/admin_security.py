"""The admin client's part for security: access rules, SCRAM credentials of users, delegation tokens."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kavka.client.pool import Pool
from kavka.client.view import raise_for
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kavka.protocol.schemas.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kavka.protocol.schemas.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kavka.protocol.schemas.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kavka.protocol.schemas.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResponse
from kavka.protocol.schemas.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kavka.protocol.schemas.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kavka.protocol.schemas.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kavka.protocol.schemas.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kavka.security.acl import Acl, AclFilter
from kavka.security.acl import Operation as AclOperation
from kavka.security.acl import PatternType as AclPattern
from kavka.security.acl import PermissionType as AclPermission
from kavka.security.acl import ResourceType as AclResource
from kavka.security.sasl.scram import MIN_ITERATIONS, salted_password
from kavka.security.sasl.scram import Mechanism as ScramMechanism

__all__ = [
    "ANY_ACL",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPattern",
    "AclPermission",
    "AclResource",
    "DelegationToken",
    "ScramCredential",
    "ScramMechanism",
    "SecurityAdmin",
]

ANY_ACL: Final = AclFilter(AclResource.ANY, None, AclPattern.ANY, AclOperation.ANY, None, None, AclPermission.ANY)
"""Means every rule; `_replace` makes it mean fewer."""
SALT_BYTES: Final = 24


class ScramCredential(NamedTuple):
    """What a user can log in with."""

    mechanism: ScramMechanism
    iterations: int


class DelegationToken(NamedTuple):
    """A token; its id is the name and its HMAC, in base64, the password of a log-in by SCRAM."""

    id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int
    """Until when it can be renewed at most."""

    def __repr__(self) -> str:
        return f"DelegationToken(id={self.id!r}, owner={self.owner!r}, expires_ms={self.expires_ms})"


class SecurityAdmin:
    """The part of the admin client that deals with security."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    # -- access rules -----------------------------------------------------------------------

    async def describe_acls(self, wanted: AclFilter = ANY_ACL) -> list[Acl]:
        """The access rules that a filter means, in order."""
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission_type,
        )
        answer = await self._pool.request(request, DescribeAclsResponse)
        raise_for(answer.error_code, answer.error_message or "")
        return sorted(
            _acl(resource.resource_type, resource.resource_name, resource.pattern_type, row)
            for resource in answer.resources
            for row in resource.acls
        )

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Put access rules in force; raises the first error, what came before it is in force."""
        creations = [
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in acls
        ]
        answer = await self._pool.request(CreateAclsRequest(creations=creations), CreateAclsResponse)
        for result in answer.results:
            raise_for(result.error_code, result.error_message or "")

    async def delete_acls(self, *filters: AclFilter) -> list[Acl]:
        """End the access rules that filters mean, and say which; raises the first error."""
        rows = [
            DeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission_type,
            )
            for wanted in filters
        ]
        answer = await self._pool.request(DeleteAclsRequest(filters=rows), DeleteAclsResponse)
        found: set[Acl] = set()
        for result in answer.filter_results:
            raise_for(result.error_code, result.error_message or "")
            for row in result.matching_acls:
                raise_for(row.error_code, row.error_message or "")
                found.add(_acl(row.resource_type, row.resource_name, row.pattern_type, row))
        return sorted(found)

    # -- users --------------------------------------------------------------------------------

    async def describe_scram_users(self, *names: str) -> dict[str, list[ScramCredential]]:
        """What users can log in with by SCRAM, of these users or of all; raises the first error."""
        rows = [UserName(name=name) for name in names] or None
        answer = await self._pool.request(
            DescribeUserScramCredentialsRequest(users=rows), DescribeUserScramCredentialsResponse
        )
        raise_for(answer.error_code, answer.error_message or "")
        found = {}
        for result in sorted(answer.results, key=lambda row: row.user):
            raise_for(result.error_code, f"user {result.user!r}: {result.error_message or 'no credential'}")
            found[result.user] = [
                ScramCredential(ScramMechanism(credential.mechanism), credential.iterations)
                for credential in result.credential_infos
            ]
        return found

    async def set_scram_credential(
        self,
        name: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
        iterations: int = MIN_ITERATIONS,
    ) -> None:
        """Let a user log in with a password, which itself is not sent."""
        salt = secrets.token_bytes(SALT_BYTES)
        row = ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            salted_password=salted_password(mechanism, password, salt, iterations),
        )
        await self._alter_users([], [row])

    async def delete_scram_credential(self, name: str, mechanism: ScramMechanism) -> None:
        """Let a user log in by a mechanism no more; raises ResourceNotFound."""
        await self._alter_users([ScramCredentialDeletion(name=name, mechanism=mechanism)], [])

    async def _alter_users(
        self, deletions: list[ScramCredentialDeletion], upsertions: list[ScramCredentialUpsertion]
    ) -> None:
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        answer = await self._pool.request(request, AlterUserScramCredentialsResponse)
        for result in answer.results:
            raise_for(result.error_code, f"user {result.user!r}: {result.error_message or 'refused'}")

    # -- tokens -------------------------------------------------------------------------------

    async def create_token(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """A token for who asks, or for another owner; principals are of the form User:name."""
        owner_type, owner_name = _parts(owner) if owner is not None else ("", "")
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in map(_parts, renewers)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        answer = await self._pool.request(request, CreateDelegationTokenResponse)
        raise_for(answer.error_code)
        return DelegationToken(
            answer.token_id,
            bytes(answer.hmac),
            f"{answer.principal_type}:{answer.principal_name}",
            f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            tuple(renewers),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    async def describe_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens of some owners, or all, that this client may see."""
        rows = None
        if owners is not None:
            rows = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_parts, owners)
            ]
        answer = await self._pool.request(DescribeDelegationTokenRequest(owners=rows), DescribeDelegationTokenResponse)
        raise_for(answer.error_code)
        return [
            DelegationToken(
                row.token_id,
                bytes(row.hmac),
                f"{row.principal_type}:{row.principal_name}",
                f"{row.token_requester_principal_type}:{row.token_requester_principal_name}",
                tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in row.renewers),
                row.issue_timestamp,
                row.expiry_timestamp,
                row.max_timestamp,
            )
            for row in answer.tokens
        ]

    async def renew_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Let a token live on, for as long as the cluster's default or for a period; until when, in ms."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        answer = await self._pool.request(request, RenewDelegationTokenResponse)
        raise_for(answer.error_code)
        return answer.expiry_timestamp_ms

    async def expire_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """End a token, at once or after a period; when, in ms."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        answer = await self._pool.request(request, ExpireDelegationTokenResponse)
        raise_for(answer.error_code)
        return answer.expiry_timestamp_ms


def _acl(resource_type: int, name: str, pattern_type: int, row: AclDescription | DeleteAclsMatchingAcl) -> Acl:
    return Acl(resource_type, name, pattern_type, row.operation, row.principal, row.host, row.permission_type)


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{principal!r} is no principal of the form User:name")
    return kind, name
