"""The APIs of SCRAM credentials."""

from __future__ import annotations

from kavka.broker.handlers.alter_user_scram_credentials import PART_USERS, alter_user_scram_credentials
from kavka.broker.handlers.describe_user_scram_credentials import describe_user_scram_credentials
from kavka.model.errors import DuplicateResource, ResourceNotFound, UnacceptableCredential
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kavka.protocol.schemas.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName


def upsertion(name, iterations=4096):
    return ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


def alter(loop, ask, deletions=(), upsertions=()):
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    answer = ask(alter_user_scram_credentials, request, 0, loop)
    return {row.user: row.error_code for row in answer.results}


def describe(loop, ask, *names):
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    answer = ask(describe_user_scram_credentials, request, 0, loop)
    return {
        row.user: (
            row.error_code,
            [(credential.mechanism, credential.iterations) for credential in row.credential_infos],
        )
        for row in answer.results
    }


def test_credentials_are_set_shown_and_removed(loop, ask):
    assert alter(loop, ask, upsertions=[upsertion("alice"), upsertion("bob", 10)]) == {
        "alice": 0,
        "bob": UnacceptableCredential.code,
    }
    assert describe(loop, ask) == {"alice": (0, [(1, 4096)])}
    assert alter(loop, ask, deletions=[ScramCredentialDeletion(name="alice", mechanism=1)]) == {"alice": 0}
    assert describe(loop, ask) == {}


def test_nothing_at_all_is_answered(loop, ask):
    assert alter(loop, ask) == {}


def test_who_is_not_there_or_asked_for_twice_is_an_error_alone(loop, ask):
    alter(loop, ask, upsertions=[upsertion("alice")])
    assert describe(loop, ask, "alice", "nobody", "carol", "carol") == {
        "alice": (0, [(1, 4096)]),
        "nobody": (ResourceNotFound.code, []),
        "carol": (DuplicateResource.code, []),
    }


def test_many_users_are_changed_in_parts_and_who_is_named_twice_is_refused_wherever_that_is(loop, ask):
    alter(loop, ask, upsertions=[upsertion("twice")])
    deletions = [ScramCredentialDeletion(name="twice", mechanism=1)]
    users = [f"user{number}" for number in range(3 * PART_USERS)]
    found = alter(loop, ask, deletions, [*map(upsertion, users), upsertion("twice"), *[upsertion("often")] * 1000])
    assert found == {**dict.fromkeys(users, 0), "twice": DuplicateResource.code, "often": DuplicateResource.code}
    assert list(found) == ["twice", *users, "often"]
    assert set(describe(loop, ask)) == {*users, "twice"}
