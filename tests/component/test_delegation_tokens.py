"""Delegation tokens on a node with SCRAM: handed out to one connection, and logged in with on another."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from crash.raw import HangupError, Raw
from kavka.model.errors import (
    DelegationTokenAuthorizationFailed,
    DelegationTokenExpired,
    DelegationTokenRequestNotAllowed,
    SaslAuthenticationFailed,
)
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kavka.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from kavka.protocol.schemas.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kavka.protocol.schemas.describe_delegation_token import DescribeDelegationTokenRequest
from kavka.protocol.schemas.expire_delegation_token import ExpireDelegationTokenRequest
from kavka.protocol.schemas.renew_delegation_token import RenewDelegationTokenRequest
from kavka.security.acl import Operation, PatternType, PermissionType, ResourceType
from kavka.security.sasl.plain import PlainClient
from kavka.security.sasl.scram import TOKEN_AUTH, Mechanism, ScramClient, salted_password
from kavka.testing import Cluster

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a" user_alice="b" user_bob="c";'
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "the key of all tokens",
}
PASSWORDS = {"admin": "a", "alice": "b", "bob": "c"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config=CONFIG) as running:
        yield running


def as_user(cluster: Cluster, name: str) -> Raw:
    raw = Raw(cluster.bootstrap)
    assert raw.log_in("PLAIN", PlainClient(name, PASSWORDS[name])) == 0
    return raw


@contextmanager
def by_token(
    cluster: Cluster, token: CreateDelegationTokenResponse, mechanism: Mechanism = Mechanism.SCRAM_SHA_256
) -> Iterator[tuple[int, Raw]]:
    client = ScramClient(mechanism, token.token_id, b64encode(token.hmac).decode(), "nonce", {TOKEN_AUTH: "true"})
    with closing(Raw(cluster.bootstrap)) as raw:
        yield raw.log_in(mechanism.mechanism_name, client), raw


def create(raw: Raw, owner: str | None = None, lifetime_ms: int = -1) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner or "",
        renewers=[],
        max_lifetime_ms=lifetime_ms,
    )
    answer: CreateDelegationTokenResponse = raw.call(request, 3)
    return answer


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_a_token_logs_in_who_owns_it_and_hands_out_no_other(cluster: Cluster, mechanism: Mechanism) -> None:
    with closing(as_user(cluster, "alice")) as alice:
        token = create(alice)
        assert (token.error_code, token.principal_name) == (0, "alice")
        with by_token(cluster, token, mechanism) as (code, raw):
            assert code == 0
            assert create(raw).error_code == DelegationTokenRequestNotAllowed.code
            refused = raw.call(DescribeDelegationTokenRequest(owners=None), 3)
            assert refused.error_code == DelegationTokenRequestNotAllowed.code
        ended = alice.call(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2)
        assert ended.error_code == 0
        with by_token(cluster, token) as (code, _):
            assert code == SaslAuthenticationFailed.code


def ask_for_ever(raw: Raw) -> None:
    while True:
        raw.call(DescribeDelegationTokenRequest(owners=None), 3)


def test_a_session_by_token_ends_with_the_token(cluster: Cluster) -> None:
    with closing(as_user(cluster, "bob")) as bob:
        token = create(bob, lifetime_ms=1500)
        with by_token(cluster, token) as (code, raw):
            assert code == 0
            with pytest.raises(HangupError):
                ask_for_ever(raw)
        over = bob.call(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1), 2)
        assert over.error_code == DelegationTokenExpired.code


def test_one_who_may_acts_for_another(cluster: Cluster) -> None:
    with closing(as_user(cluster, "admin")) as admin, closing(as_user(cluster, "alice")) as alice:
        assert create(alice, owner="bob").error_code == DelegationTokenAuthorizationFailed.code
        rule = AclCreation(
            resource_type=ResourceType.USER,
            resource_name="User:bob",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=Operation.CREATE_TOKENS,
            permission_type=PermissionType.ALLOW,
        )
        assert [one.error_code for one in admin.call(CreateAclsRequest(creations=[rule]), 3).results] == [0]
        token = create(alice, owner="bob")
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "bob", "alice")
        with by_token(cluster, token) as (code, _):
            assert code == 0


def test_a_token_is_logged_in_with_after_a_restart(cluster: Cluster) -> None:
    with closing(as_user(cluster, "alice")) as alice:
        token = create(alice)
    cluster.restart()
    with by_token(cluster, token) as (code, _):
        assert code == 0


def test_a_password_by_scram_is_no_token(cluster: Cluster) -> None:
    with closing(as_user(cluster, "admin")) as admin:
        row = ScramCredentialUpsertion(
            name="carol",
            mechanism=1,
            iterations=4096,
            salt=b"salt",
            salted_password=salted_password(Mechanism.SCRAM_SHA_256, "d", b"salt", 4096),
        )
        set_ = admin.call(AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]), 0)
        assert [one.error_code for one in set_.results] == [0]
    for extensions, code in ((None, 0), ({TOKEN_AUTH: "true"}, SaslAuthenticationFailed.code)):
        with closing(Raw(cluster.bootstrap)) as raw:
            client = ScramClient(Mechanism.SCRAM_SHA_256, "carol", "d", "nonce", extensions)
            assert raw.log_in("SCRAM-SHA-256", client) == code
