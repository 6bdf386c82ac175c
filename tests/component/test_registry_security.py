"""Who gets in on the registry's listener: by a password, a token or a certificate, over TLS or not."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

from kavka.testing import Cluster, NodeError
from kavka.testing.secured import MODULES, STANDARD_AUTHORIZER, Secured

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

ORDER = Schema(json.dumps({"type": "record", "name": "Order", "fields": []}), "AVRO")
PASSWORDS = {"alice": "wonder-land", "bob": "b:u:i:l:d", "eve": "apple-tree"}
PLAIN_PASSWORD = "only-in-the-settings"
"""alice's by PLAIN; the others are SCRAM's."""


def settings(made: Secured) -> dict[str, str]:
    return {
        **made.tls,
        "kavka.registry.listener": "127.0.0.1:0",
        "kavka.registry.security.protocol": "SASL_SSL",
        "listener.name.registry.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.registry.plain.sasl.jaas.config": f'{MODULES["PLAIN"]} required user_alice="{PLAIN_PASSWORD}";',
        "listener.name.registry.oauthbearer.kavka.sasl.oauthbearer.unsecured": "true",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:alice;User:ANONYMOUS;User:robot;User:ALICE",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/U,DEFAULT",
        "kavka.log.level": "debug",
        "kavka.audit.enable": "true",
    }


class Node:
    """A node whose registry is secured."""

    def __init__(self, cluster: Cluster, made: Secured) -> None:
        self.cluster = cluster
        self.made = made
        host, _, port = cluster.registry.rpartition("//")[2].rpartition(":")
        self.address = host, int(port)

    def client(self, user: str, password: str) -> SchemaRegistryClient:
        return SchemaRegistryClient(
            {
                "url": self.cluster.registry,
                "basic.auth.user.info": f"{user}:{password}",
                "ssl.ca.location": str(self.made.folder / "ca.pem"),
            }
        )

    def ask(self, header: str | None, method: str = "GET", path: str = "/subjects", body: str = "") -> Any:
        """The status of an answer, its headers and what it says."""
        context = ssl.create_default_context(cafile=str(self.made.folder / "ca.pem"))
        connection = http.client.HTTPSConnection(*self.address, context=context, timeout=30)
        try:
            connection.request(method, path, body or None, {} if header is None else {"Authorization": header})
            response = connection.getresponse()
            return response.status, response.headers, json.loads(response.read())
        finally:
            connection.close()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    users = [f"SCRAM-SHA-256=[name={name},password={password}]" for name, password in PASSWORDS.items()]
    with Cluster(config=settings(made), users=users) as cluster:
        yield Node(cluster, made)


@pytest.mark.parametrize("password", [PLAIN_PASSWORD, PASSWORDS["alice"]])
def test_a_password_lets_in_whichever_mechanism_knows_it(node: Node, password: str) -> None:
    with node.client("alice", password) as client:
        assert client.register_schema("orders-value", ORDER) == 1
        assert client.get_subjects() == ["orders-value"]


def audited(node: Node, subject: str) -> list[tuple[Any, ...]]:
    files = sorted((Path(node.cluster.data_dir) / "kavka-audit").glob("*.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    names = ("principal", "operation", "resource", "allowed", "outcome")
    return [tuple(map(entry.get, names)) for entry in found if entry["resource"] == subject]


def test_what_is_changed_and_what_is_denied_is_in_the_audit_log(node: Node) -> None:
    alice, eve = basic("alice", PLAIN_PASSWORD), basic("eve", PASSWORDS["eve"])
    schema = {"schema": json.dumps({"type": "record", "name": "Told", "fields": []})}
    status, _, made = node.ask(alice, "POST", "/subjects/told-value/versions", json.dumps(schema))
    assert status == 200
    assert node.ask(alice, "PUT", "/mode/told-value", '{"mode": "SOMETIMES"}')[0] == 422
    assert node.ask(alice, "GET", f"/schemas/ids/{made['id']}")[0] == 200  # what is only read is not written
    assert node.ask(eve, "GET", f"/schemas/ids/{made['id']}")[0] == 403
    assert node.ask(alice, "DELETE", "/subjects/told-value")[0] == 200
    assert audited(node, "told") == [
        ("User:alice", "WRITE", "told", True, "NONE"),
        ("User:alice", "ALTER_CONFIGS", "told", True, "HTTP_422"),
        ("User:eve", "DESCRIBE", "told", False, None),
        ("User:alice", "DELETE", "told", True, "NONE"),
    ]


@pytest.mark.parametrize(
    ("user", "password"),
    [("alice", "looking-glass"), ("nobody", PLAIN_PASSWORD), ("bob", PASSWORDS["alice"]), ("", ""), ("bob", "")],
)
def test_a_wrong_password_does_not(node: Node, user: str, password: str) -> None:
    status, headers, said = node.ask(basic(user, password))
    assert (status, said) == (401, {"error_code": 401, "message": "Unauthorized"})
    assert headers["WWW-Authenticate"] == 'Basic realm="kavka", charset="UTF-8"'
    assert headers["Connection"] == "close"
    if user and password:
        with node.client(user, password) as client, pytest.raises(SchemaRegistryError) as error:
            client.get_subjects()
        assert (error.value.http_status_code, error.value.error_code) == (401, 401)


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !", "Basic " + "A" * 20_000, "Digest x", "Bearer ", "Bearer x.y", "\xff\xfe", ""]
)
def test_a_header_that_is_none_does_not_either(node: Node, header: str) -> None:
    assert node.ask(header)[0] == 401
    assert "Traceback" not in node.cluster.log


def test_nothing_at_all_is_asked_for_more(node: Node) -> None:
    status, headers, _ = node.ask(None, "POST", "/subjects/s/versions", json.dumps({"schema": '"int"'}))
    assert status == 401
    assert headers.get_all("WWW-Authenticate") == ['Basic realm="kavka", charset="UTF-8"', 'Bearer realm="kavka"']
    assert headers["Connection"] is None  # it may try again on the same connection


def test_a_token_lets_in(node: Node) -> None:
    def part(said: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")

    now = int(time.time())
    token = f"{part({'alg': 'none'})}.{part({'sub': 'robot', 'iat': now, 'exp': now + 60})}."
    assert node.ask(f"Bearer {token}")[0] == 200
    stale = f"{part({'alg': 'none'})}.{part({'sub': 'robot', 'iat': now - 600, 'exp': now - 300})}."
    assert node.ask(f"Bearer {stale}")[0] == 401


def test_who_is_in_may_do_what_the_access_rules_say(node: Node) -> None:
    with node.client("bob", PASSWORDS["bob"]) as client:
        with pytest.raises(SchemaRegistryError) as error:
            client.register_schema("orders-value", ORDER)
        assert (error.value.http_status_code, error.value.error_code) == (403, 40301)
        assert client.get_subjects() == []
    describe = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": node.cluster.bootstrap})
    for done in admin.create_acls([describe]).values():
        done.result(30)
    with node.client("bob", PASSWORDS["bob"]) as client:
        deadline = time.monotonic() + 30
        while client.get_subjects() != ["orders-value"]:
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/contexts/.a%2Fb/schemas/ids/1", None),
        ("GET", "/contexts/.a%2Fb/schemas/ids/1/schema", None),
        ("GET", "/subjects/:.a%2Fb:secret/versions/1", None),
        ("PUT", "/config/mine", {"alias": "secret"}),
        (
            "POST",
            "/subjects/mine/versions",
            {"schema": '"string"', "references": [{"name": "x", "subject": "secret", "version": 1}]},
        ),
        ("GET", "/schemas", None),
        ("PUT", "/config", {"compatibility": "NONE"}),
    ],
)
def test_there_is_no_way_around_the_rights(node: Node, method: str, path: str, body: Any) -> None:
    alice, bob = basic("alice", PLAIN_PASSWORD), basic("bob", PASSWORDS["bob"])
    schema = json.dumps({"schema": json.dumps({"type": "record", "name": "Secret", "fields": []})})
    for secret in ("/contexts/.a%2Fb/subjects/secret/versions", "/subjects/secret/versions"):
        assert node.ask(alice, "POST", secret, schema)[0] == 200
    admin = AdminClient({"bootstrap.servers": node.cluster.bootstrap})
    mine = AclBinding(
        ResourceType.TOPIC,
        "mine",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    for done in admin.create_acls([mine]).values():
        done.result(30)
    deadline = time.monotonic() + 30
    while node.ask(bob, "PUT", "/config/mine", json.dumps({"compatibility": "NONE"}))[0] != 200:
        assert time.monotonic() < deadline
    status, _, said = node.ask(bob, method, path, "" if body is None else json.dumps(body))
    assert (status, said["error_code"]) == (403, 40301)


def test_a_user_who_is_deleted_is_out_on_connections_that_are_there(node: Node) -> None:
    with node.client("eve", PASSWORDS["eve"]) as client:
        assert client.get_subjects() == []
        gone = UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_256)
        admin = AdminClient({"bootstrap.servers": node.cluster.bootstrap})
        for done in admin.alter_user_scram_credentials([gone]).values():
            done.result(30)
        with pytest.raises(SchemaRegistryError) as error:
            asked_for_30_seconds(client)
        assert error.value.http_status_code == 401


def asked_for_30_seconds(client: SchemaRegistryClient) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        client.get_subjects()


def test_no_password_is_in_the_log(node: Node) -> None:
    for user, password in PASSWORDS.items():
        node.ask(basic(user, password))
        node.ask(basic(user, password + "-not"))
    log = node.cluster.log
    assert "failed authentication" in log
    for secret in (*PASSWORDS.values(), PLAIN_PASSWORD):
        assert secret not in log
        assert basic("alice", secret)[6:] not in log


def test_plain_http_is_no_tls(node: Node) -> None:
    with socket.create_connection(node.address, 30) as sock:
        sock.sendall(b"GET /subjects HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(100) == b""


def test_a_certificate_says_who_it_is(tmp_path: Path) -> None:
    made = Secured(tmp_path / "keys")
    made.issue("alice.pem", "alice")
    made.issue("mallory.pem", "mallory")
    config = {
        **settings(made),
        "kavka.registry.security.protocol": "SSL",
        "listener.name.registry.ssl.client.auth": "required",
    }
    with Cluster(config=config) as cluster:
        for name, allowed in (("alice", True), ("mallory", False)):
            conf = {
                "url": cluster.registry,
                "ssl.ca.location": str(made.folder / "ca.pem"),
                "ssl.certificate.location": str(made.folder / f"{name}.pem"),
                "ssl.key.location": str(made.folder / f"{name}.pem"),
            }
            with SchemaRegistryClient(conf) as client:
                if allowed:
                    assert client.register_schema("s", ORDER) == 1
                else:
                    with pytest.raises(SchemaRegistryError) as error:
                        client.register_schema("s", ORDER)
                    assert error.value.error_code == 40301


def test_without_tls_a_password_will_do_too() -> None:
    config = {
        "kavka.registry.listener": "127.0.0.1:0",
        "kavka.registry.security.protocol": "SASL_PLAINTEXT",
        "listener.name.registry.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with Cluster(config=config, users=["SCRAM-SHA-512=[name=alice,password=wonder]"]) as cluster:
        conf = {"url": cluster.registry, "basic.auth.user.info": "alice:wonder"}
        with SchemaRegistryClient(conf) as client:
            assert client.register_schema("s", ORDER) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"listener.name.registry.sasl.enabled.mechanisms": "GSSAPI"}, "over HTTP one of PLAIN"),
        ({"ssl.keystore.location": "/nowhere.pem"}, "nowhere"),
        (
            {
                "listeners": "REGISTRY://:0",
                "listener.security.protocol.map": "REGISTRY:PLAINTEXT",
                "inter.broker.listener.name": "REGISTRY",
            },
            "choose another",
        ),
    ],
)
def test_what_cannot_be_secured_does_not_start(tmp_path: Path, more: dict[str, str], words: str) -> None:
    cluster = Cluster(config={**settings(Secured(tmp_path / "keys")), **more}, data_dir=tmp_path / "data")
    with pytest.raises(NodeError, match=words):
        cluster.start()
    cluster.close()
