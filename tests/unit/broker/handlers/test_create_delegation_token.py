"""The APIs of delegation tokens, by their error codes."""

from __future__ import annotations

import pytest

from kavka.broker.forwarding import Forwarding
from kavka.broker.gate import Gate
from kavka.broker.handlers.create_delegation_token import create_delegation_token
from kavka.broker.handlers.describe_delegation_token import describe_delegation_token
from kavka.broker.handlers.expire_delegation_token import expire_delegation_token
from kavka.broker.handlers.renew_delegation_token import renew_delegation_token
from kavka.broker.token_requests import UNKNOWN_MS
from kavka.model.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
    KafkaError,
)
from kavka.protocol.schemas.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kavka.protocol.schemas.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kavka.protocol.schemas.expire_delegation_token import ExpireDelegationTokenRequest
from kavka.protocol.schemas.renew_delegation_token import RenewDelegationTokenRequest
from kavka.security.acl import Acl, Operation, PatternType, PermissionType, ResourceType
from kavka.security.authorizer import Authorizer

ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
DAY = 86_400_000
UNPROVED = [
    {"security_protocol": "PLAINTEXT"},
    {"security_protocol": "SSL"},
    {"security_protocol": "SASL_SSL", "principal": ALICE, "token_authenticated": True},
]


class Tokens:
    """The four requests, as somebody on a connection makes them."""

    def __init__(self, loop, ask, *acls):
        self.loop, self.ask = loop, ask
        self.gate = Gate(Authorizer())
        for acl in acls:
            self.gate.rules.acls.add(acl)

    def send(self, function, request, version, by, *services, **session):
        session = {"principal": by, "security_protocol": "SASL_SSL", **session}
        guard = self.gate.guard(session["principal"], "127.0.0.1")
        return self.ask(function, request, version, *services, guard=guard, **session)

    def create(self, by=ALICE, owner="", renewers=(), lifetime=-1, version=3, **session):
        request = CreateDelegationTokenRequest(
            owner_principal_type="User" if owner else "",
            owner_principal_name=owner,
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
            max_lifetime_ms=lifetime,
        )
        return self.send(create_delegation_token, request, version, by, self.loop, Forwarding(), **session)

    def renew(self, hmac, by=ALICE, **session):
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1)
        answer = self.send(renew_delegation_token, request, 2, by, self.loop, Forwarding(), **session)
        return answer.error_code, answer.expiry_timestamp_ms

    def expire(self, hmac, by=ALICE, **session):
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)
        answer = self.send(expire_delegation_token, request, 2, by, self.loop, Forwarding(), **session)
        return answer.error_code, answer.expiry_timestamp_ms

    def describe(self, *owners, by=ALICE, version=3, **session):
        rows = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
        request = DescribeDelegationTokenRequest(owners=rows if owners else None)
        return self.send(
            describe_delegation_token, request, version, by, self.loop, self.loop.settings, **session
        ).tokens


def allow(principal, operation, kind, name):
    return Acl(kind, name, PatternType.LITERAL, operation, principal, "*", PermissionType.ALLOW)


@pytest.fixture
def with_key(loops):
    return loops(delegation_token_secret_key="secret")


def test_a_token_is_handed_out_renewed_and_ended(with_key, ask):
    tokens = Tokens(with_key, ask)
    token = tokens.create(renewers=[("User", "bob")])
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "alice")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (0, DAY, 7 * DAY)
    (shown,) = tokens.describe()
    assert (shown.token_id, shown.hmac, shown.expiry_timestamp) == (token.token_id, token.hmac, DAY)
    assert [(renewer.principal_type, renewer.principal_name) for renewer in shown.renewers] == [("User", "bob")]
    assert tokens.renew(token.hmac, by=BOB) == (0, DAY)
    assert tokens.renew(token.hmac, by=CAROL) == (DelegationTokenOwnerMismatch.code, 0)
    assert tokens.expire(token.hmac, by=CAROL) == (DelegationTokenOwnerMismatch.code, 0)
    assert tokens.expire(token.hmac) == (0, 0)
    assert tokens.expire(token.hmac) == (DelegationTokenNotFound.code, 0)
    assert tokens.renew(token.hmac) == (DelegationTokenNotFound.code, 0)


@pytest.mark.parametrize("session", UNPROVED)
def test_who_has_proved_nothing_or_has_a_token_gets_none(with_key, ask, session):
    tokens = Tokens(with_key, ask)
    session = {"principal": "User:ANONYMOUS", **session}
    answer = tokens.create(**session)
    assert (answer.error_code, answer.issue_timestamp_ms, answer.max_timestamp_ms) == (
        DelegationTokenRequestNotAllowed.code,
        UNKNOWN_MS,
        UNKNOWN_MS,
    )
    refused = (DelegationTokenRequestNotAllowed.code, UNKNOWN_MS)
    assert tokens.renew(b"x", **session) == refused
    assert tokens.expire(b"x", **session) == refused
    with pytest.raises(DelegationTokenRequestNotAllowed):
        tokens.describe(**session)
    assert not with_key.image.security.tokens


def test_a_certificate_is_proof_enough(with_key, ask):
    assert Tokens(with_key, ask).create(security_protocol="SSL", principal="User:CN=alice").error_code == 0


def test_a_token_for_another_needs_the_right_to_create_it(with_key, ask):
    refused = Tokens(with_key, ask).create(owner="bob")
    assert (refused.error_code, refused.principal_name) == (DelegationTokenAuthorizationFailed.code, "bob")
    tokens = Tokens(with_key, ask, allow(ALICE, Operation.CREATE_TOKENS, ResourceType.USER, BOB))
    token = tokens.create(owner="bob")
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "bob", "alice")
    assert tokens.describe(by=ALICE) == []  # who asked for it does not own it
    assert [token.token_id for token in tokens.describe(by=BOB)] == [token.token_id]


def test_tokens_of_others_are_seen_by_a_right_on_the_token_or_on_its_owner(with_key, ask):
    alices = Tokens(with_key, ask).create(by=ALICE).token_id
    bobs = Tokens(with_key, ask).create(by=BOB).token_id

    def seen(*acls, owners=()):
        return {token.token_id for token in Tokens(with_key, ask, *acls).describe(*owners, by=CAROL)}

    assert seen() == set()
    assert seen(allow(CAROL, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, alices)) == {alices}
    on_owners = [allow(CAROL, Operation.DESCRIBE_TOKENS, ResourceType.USER, owner) for owner in (ALICE, BOB)]
    assert seen(*on_owners) == {alices, bobs}
    assert seen(*on_owners, owners=["bob"]) == {bobs}


def test_a_list_of_no_owners_means_nobody(with_key, ask):
    tokens = Tokens(with_key, ask)
    tokens.create()
    request = DescribeDelegationTokenRequest(owners=[])
    assert tokens.send(describe_delegation_token, request, 3, ALICE, with_key, with_key.settings).tokens == []


def test_renewers_are_users(with_key, ask):
    answer = Tokens(with_key, ask).create(renewers=[("Group", "ops")])
    assert (answer.error_code, answer.issue_timestamp_ms) == (InvalidPrincipalType.code, UNKNOWN_MS)


def test_without_a_key_there_are_no_tokens(loop, ask):
    tokens = Tokens(loop, ask)
    assert tokens.create().error_code == DelegationTokenAuthDisabled.code
    assert tokens.renew(b"x") == (DelegationTokenAuthDisabled.code, 0)
    with pytest.raises(KafkaError) as refused:
        tokens.describe()
    assert refused.value.code == DelegationTokenAuthDisabled.code


def test_old_versions_do_not_tell_who_asked(with_key, ask):
    tokens = Tokens(with_key, ask)
    assert tokens.create(version=2).token_requester_principal_name == ""
    assert tokens.describe(version=2)[0].token_requester_principal_name == ""
