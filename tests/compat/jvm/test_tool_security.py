"""kafka-delegation-tokens, kafka-acls and a console login by token, against a node where clients log in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jvm.java_tools import Java
from jvm.nodes import Node, running, target
from jvm.tools import Tools, eventually

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{PLAIN} required username="admin" password="a" user_admin="a" user_alice="b" user_bob="c";'
OVERRIDES = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
}


@pytest.fixture(scope="module")
def secured(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(target(), java, tmp_path_factory.mktemp("secured"), OVERRIDES) as node:
        yield node


@pytest.fixture
def tools(java: Java, secured: Node) -> Tools:
    return Tools(java, secured)


class Clients:
    """Files of client properties."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def user(self, name: str, password: str) -> str:
        return self._write(name, "PLAIN", f'{PLAIN} required username="{name}" password="{password}";')

    def token(self, id_: str, hmac: str) -> str:
        jaas = f'{SCRAM} required username="{id_}" password="{hmac}" tokenauth="true";'
        return self._write("token", "SCRAM-SHA-256", jaas)

    def _write(self, name: str, mechanism: str, jaas: str) -> str:
        path = self._folder / f"{name}.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
            "request.timeout.ms=15000\ndefault.api.timeout.ms=20000\n"
        )
        return str(path)


@pytest.fixture
def clients(tmp_path: Path) -> Clients:
    return Clients(tmp_path)


def test_a_token_is_created_used_renewed_described_and_expired(tools: Tools, clients: Clients) -> None:
    alice, admin = clients.user("alice", "b"), clients.user("admin", "a")
    tools.topics("--create", "--topic", "by-token", "--command-config", admin).must_succeed()
    rule = ["--allow-principal", "User:alice", "--operation", "Describe", "--topic", "by-token"]
    tools.acls("--add", *rule, "--command-config", admin).must_succeed()
    made = tools.delegation_tokens(
        "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob", "--command-config", alice
    ).must_succeed()
    id_, hmac, owner, requester, renewers, *_ = made.lines[-1].split()
    assert (owner, requester, renewers) == ("User:alice", "User:alice", "[User:bob]")
    login = clients.token(id_, hmac)
    eventually(lambda: tools.topics("--list", "--command-config", login).out.split(), ["by-token"], within_s=30.0)
    refused = tools.delegation_tokens("--create", "--max-life-time-period", "-1", "--command-config", login)
    assert "DelegationTokenDisabledException" in refused.said or "not allowed" in refused.said
    shown = tools.delegation_tokens("--describe", "--owner-principal", "User:alice", "--command-config", alice)
    assert id_ in shown.must_succeed().out
    bob = clients.user("bob", "c")
    renewed = tools.delegation_tokens("--renew", "--renew-time-period", "-1", "--hmac", hmac, "--command-config", bob)
    assert "expiry date" in renewed.must_succeed().out
    ended = tools.delegation_tokens("--expire", "--expiry-time-period", "-1", "--hmac", hmac, "--command-config", alice)
    ended.must_succeed()
    eventually(
        lambda: (
            id_
            in tools.delegation_tokens("--describe", "--owner-principal", "User:alice", "--command-config", alice).out
        ),
        False,
    )
    gone = tools.topics("--list", "--command-config", login)
    assert "invalid credentials" in gone.said


def test_rules_are_added_listed_and_removed(tools: Tools, clients: Clients) -> None:
    admin = clients.user("admin", "a")
    rule = ["--allow-principal", "User:bob", "--producer", "--topic", "shop-", "--resource-pattern-type", "prefixed"]
    tools.acls("--add", *rule, "--command-config", admin).must_succeed()
    listed = tools.acls("--list", "--topic", "shop-1", "--resource-pattern-type", "match", "--command-config", admin)
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:bob, host=*, operation={operation}, permissionType=ALLOW)" in listed.must_succeed().out
    tools.acls("--remove", *rule, "--force", "--command-config", admin).must_succeed()
    eventually(
        lambda: (
            "User:bob"
            in tools.acls(
                "--list", "--topic", "shop-1", "--resource-pattern-type", "match", "--command-config", admin
            ).out
        ),
        False,
    )
    refused = tools.acls("--list", "--command-config", clients.user("bob", "c"))
    assert "ClusterAuthorizationException" in refused.said


def test_a_wrong_password_is_told_as_kafka_tells_it(tools: Tools, clients: Clients) -> None:
    outcome = tools.topics("--list", "--command-config", clients.user("alice", "wrong"))
    assert "Authentication failed: Invalid username or password" in outcome.said
