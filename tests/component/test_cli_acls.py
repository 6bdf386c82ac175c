"""`kavka acls`, `kavka users` and the blocking admin client's part for security, against a running node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.client import ANY_ACL, Acl, AclOperation, AclPattern, AclPermission, AclResource, ScramMechanism
from kavka.client.blocking import Client
from kavka.model.errors import DelegationTokenRequestNotAllowed, InvalidRequest, ResourceNotFound
from kavka.testing import Cluster

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with Cluster(config=CONFIG) as cluster:
        yield cluster.bootstrap


def kavka(node: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kavka", *arguments],
        capture_output=True,
        env={**os.environ, "KAVKA_BOOTSTRAP": node},
        timeout=60,
        check=False,
        text=True,
        input=stdin,
    )


def rows(node: str, *arguments: str) -> list[dict[str, Any]]:
    done = kavka(node, *arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def rights(found: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    keys = ("resource", "name", "pattern", "principal", "operation", "permission")
    return {tuple(row[key] for key in keys) for row in found}


def test_rules_are_added_listed_and_removed(node: str) -> None:
    added = rows(node, "acls", "add", "--allow", "User:shop", "--producer", "--topic", "shop-", "--pattern", "prefixed")
    assert rights(added) == {
        ("Topic", "shop-", "PREFIXED", "User:shop", operation, "ALLOW") for operation in ("Write", "Describe", "Create")
    }
    added = rows(node, "acls", "add", "--allow", "User:b", "--consumer", "--topic", "shop-1", "--group", "b")
    assert rights(added) == {
        ("Topic", "shop-1", "LITERAL", "User:b", "Read", "ALLOW"),
        ("Topic", "shop-1", "LITERAL", "User:b", "Describe", "ALLOW"),
        ("Group", "b", "LITERAL", "User:b", "Read", "ALLOW"),
    }
    rows(
        node, "acls", "add", "--deny", "User:evil", "--operation", "idempotent-write", "--cluster", "--host", "10.0.0.1"
    )
    assert len(rows(node, "acls", "list")) == 7
    assert len(rows(node, "acls", "list", "--topic", "shop-1")) == 2
    assert len(rows(node, "acls", "list", "--topic", "shop-1", "--pattern", "match")) == 5
    (denied,) = rows(node, "acls", "list", "--cluster")
    assert (denied["operation"], denied["permission"], denied["host"]) == ("IdempotentWrite", "DENY", "10.0.0.1")
    looked = kavka(node, "acls", "remove", "--principal", "User:b", "--operation", "read")
    assert "add --execute" in looked.stderr
    assert len(rows(node, "acls", "list")) == 7
    gone = rows(node, "acls", "remove", "--principal", "User:b", "--operation", "read", "--execute")
    assert {(one["resource"], one["operation"]) for one in gone} == {("Topic", "Read"), ("Group", "Read")}
    assert len(rows(node, "acls", "list")) == 5


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["acls", "add", "--allow", "User:a", "--topic", "t"], "no operation is named for Topic t"),
        (["acls", "add", "--topic", "t", "--operation", "read"], "name whom"),
        (["acls", "add", "--allow", "User:a", "--topic", "t", "--operation", "fly"], "is none of"),
        (["users", "set", "alice"], "a password is needed"),
        (["tokens", "renew", "!"], "it is no base64"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(node: str, arguments: list[str], complaint: str) -> None:
    done = kavka(node, *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_users_are_set_listed_and_removed(node: str) -> None:
    done = kavka(node, "users", "set", "alice", stdin="secret\n")
    assert (done.stdout, done.stderr) == ("user alice can log in by SCRAM-SHA-256\n", "")
    kavka(node, "users", "set", "alice", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", stdin="secret\n")
    assert rows(node, "users", "list") == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    assert kavka(node, "users", "list", "bob").returncode == 1
    done = kavka(node, "users", "remove", "alice")
    assert done.stdout.count("can no longer log in") == 2
    assert rows(node, "users", "list") == []


def test_tokens_need_a_connection_that_proves_who_asks(node: str) -> None:
    done = kavka(node, "tokens", "create")
    assert done.returncode == 1
    assert f"error {DelegationTokenRequestNotAllowed.code}" in done.stderr


def test_the_blocking_admin_client_has_it_all(node: str) -> None:
    rule = Acl(AclResource.TOPIC, "x", AclPattern.LITERAL, AclOperation.READ, "User:x", "*", AclPermission.ALLOW)
    with Client(node) as client:
        client.admin.create_acls([rule])
        mine = ANY_ACL._replace(principal="User:x")
        assert client.admin.describe_acls(mine) == [rule]
        assert client.admin.delete_acls(mine, mine) == [rule]
        with pytest.raises(InvalidRequest):
            client.admin.create_acls([rule._replace(principal="nobody")])
        client.admin.set_scram_credential("u", "p", mechanism=ScramMechanism.SCRAM_SHA_512)
        (credential,) = client.admin.describe_scram_users("u")["u"]
        assert credential == (ScramMechanism.SCRAM_SHA_512, 4096)
        with pytest.raises(ResourceNotFound):
            client.admin.delete_scram_credential("u", ScramMechanism.SCRAM_SHA_256)
        client.admin.delete_scram_credential("u", ScramMechanism.SCRAM_SHA_512)
        with pytest.raises(ResourceNotFound):
            client.admin.describe_scram_users("u")
        for ask in (
            client.admin.create_token,
            client.admin.describe_tokens,
            lambda: client.admin.renew_token(b"x"),
            lambda: client.admin.expire_token(b"x"),
        ):
            with pytest.raises(DelegationTokenRequestNotAllowed):
                ask()
        with pytest.raises(ValueError, match="of the form User:name"):
            client.admin.create_token(owner="alice")
