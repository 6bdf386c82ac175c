"""One node with all four kinds of listeners, and our own client on each of them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from every_listener import MECHANISMS, PASSWORD, PROTOCOLS, WAYS, Served, options, serving
from kavka.client import Admin, Producer, blocking
from kavka.model.errors import NetworkException, RequestTimedOut, SaslAuthenticationFailed, TopicAuthorizationFailed
from kavka.model.settings import SettingError
from kavka.protocol.header import encode_request
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.testing import Cluster
from kavka.testing.authority import Authority
from kavka.testing.cluster import NodeError
from kavka.testing.secured import ADMIN, set_password
from scale import rounds

PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    asks = {"listener.name.sasl_ssl.ssl.client.auth": "requested"}
    with serving(tmp_path_factory.mktemp("secured"), asks) as node:
        yield node


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_every_way_in_carries_records(served: Served, protocol: str, mechanism: str) -> None:
    topic = f"t-{protocol}-{mechanism}"
    with blocking.Client(served.bootstrap(protocol), security=options(served, protocol, mechanism)) as client:
        client.admin.create_topic(topic, partitions=1)
        big = bytes(900_000)
        with client.producer() as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number)
            producer.send(topic, big)
        with client.consumer(topic) as consumer:
            values = [record.value for record in consumer.until_end()]
        assert values == [b"%d" % number for number in range(100)] + [big]


@pytest.mark.parametrize("protocol", PROTOCOLS[2:])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "looking glass"), ("eve", PASSWORD)])
def test_wrong_credentials_are_refused(served: Served, protocol: str, mechanism: str, user: str, password: str) -> None:
    with pytest.raises(SaslAuthenticationFailed) as error:
        blocking.Client(served.bootstrap(protocol), security=options(served, protocol, mechanism, user, password))
    assert password not in str(error.value)


def test_a_mechanism_that_there_is_not_is_said_to_be_so(served: Served) -> None:
    with pytest.raises(SettingError, match="is not there"):
        blocking.Client(served.bootstrap("SASL_SSL"), security=options(served, "SASL_SSL", "CRAM-MD5"))


def test_users_may_be_in_a_file(served: Served) -> None:
    with blocking.Client(served.bootstrap("SASL_SSL"), security=options(served, "SASL_SSL", "PLAIN", "bob")) as client:
        assert client.admin.list_topics() is not None


def test_who_shows_a_certificate_is_who_the_rules_make_of_it(served: Served) -> None:
    def create(file: str, topic: str) -> None:
        mine = {**options(served, "SSL"), "ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / file)}
        with blocking.Client(served.bootstrap("SSL"), security=mine) as client:
            client.admin.create_topic(topic, partitions=1)

    folder = served.secured.folder
    served.secured.issue("mallory.pem", "mallory")
    create("alice.pem", "certified")  # User:ALICE, who may do everything
    with pytest.raises(TopicAuthorizationFailed):
        create("mallory.pem", "forged")


def test_a_certificate_says_nothing_where_clients_log_in(served: Served) -> None:
    """alice, who is a super user, has her certificate shown by others on a listener that asks for one."""
    alice = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(served.secured.folder / "alice.pem")}
    with blocking.Client(served.bootstrap("PLAINTEXT")) as client:
        client.run(set_password(client.pool, "carol", PASSWORD))
    carol = {**options(served, "SASL_SSL", "SCRAM-SHA-512", "carol"), **alice}
    with (
        blocking.Client(served.bootstrap("SASL_SSL"), security=carol) as client,
        pytest.raises(TopicAuthorizationFailed),
    ):
        client.admin.create_topic("not-carols", partitions=1)
    with pytest.raises(SaslAuthenticationFailed):
        blocking.Client(served.bootstrap("SASL_SSL"), security={**options(served, "SASL_SSL", "PLAIN", "eve"), **alice})


def test_a_certificate_that_is_out_of_date_is_refused(served: Served) -> None:
    served.secured.issue("late.pem", "alice", days=0)
    late = ssl.create_default_context(cafile=served.authority)
    late.load_cert_chain(served.secured.folder / "late.pem")
    with (
        socket.create_connection(("localhost", served.ports["SSL"]), timeout=PATIENCE_S) as raw,
        late.wrap_socket(raw, server_hostname="localhost") as sock,
        pytest.raises(ssl.SSLError, match="CERTIFICATE_EXPIRED"),
    ):
        sock.recv(1)
    assert "certificate verify failed: certificate has expired" in served.cluster.log


def test_clients_that_never_read_what_tls_sends_leave_nothing_behind(served: Served) -> None:
    """What is unread, session tickets first of all, makes the end of such a client a reset."""
    context = ssl.create_default_context(cafile=served.authority)
    asks = encode_request(9, 1, "never-reads", MetadataRequest(topics=None))
    folder = Path(f"/proc/{served.cluster.pid}/fd")
    before = len(list(folder.iterdir()))
    for _ in range(rounds(200, 30)):
        with socket.create_connection(("localhost", served.ports["SSL"]), timeout=PATIENCE_S) as raw:
            sock = context.wrap_socket(raw, server_hostname="localhost")
            sock.sendall(asks)
            sock.close()
    ends = time.monotonic() + PATIENCE_S
    while len(list(folder.iterdir())) > before:
        assert time.monotonic() < ends
        time.sleep(0.01)
    with blocking.Client(served.bootstrap("SSL"), security=options(served, "SSL")) as client:
        assert client.admin.list_topics() is not None


def test_a_node_that_nobody_vouches_for_is_not_believed(served: Served, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_text(Authority().pem)
    wrong = {**options(served, "SSL"), "ssl.truststore.location": str(tmp_path / "other.pem")}
    with pytest.raises(NetworkException, match="certificate verify failed"):
        blocking.Client(served.bootstrap("SSL"), security=wrong)


@pytest.mark.parametrize(
    ("spoken", "listener"),
    [("PLAINTEXT", "SSL"), ("SSL", "PLAINTEXT"), ("SSL", "SASL_PLAINTEXT"), ("PLAINTEXT", "SASL_PLAINTEXT")],
)
def test_the_wrong_protocol_is_an_error_soon(served: Served, spoken: str, listener: str) -> None:
    with (
        pytest.raises((NetworkException, RequestTimedOut)),
        blocking.Client(served.bootstrap(listener), security=options(served, spoken), timeout_ms=2_000) as client,
    ):
        client.admin.list_topics()


def test_a_client_logs_in_again_before_its_session_ends(served: Served) -> None:
    """The session of 1.2 s ends several times, and no request is lost to it."""

    async def test() -> None:
        security = options(served, "SASL_SSL", "SCRAM-SHA-256")
        async with Admin(served.bootstrap("SASL_SSL"), security=security) as admin:
            await admin.create_topic("long", partitions=1)
            connection = await admin._pool.any()
            async with Producer(admin._pool, idempotence=True) as producer:
                ends = time.monotonic() + 4
                number = 0
                while time.monotonic() < ends:
                    await producer.send_and_wait("long", b"%d" % number)
                    number += 1
            assert await admin._pool.any() is connection

    asyncio.run(test())
    assert "without re-authentication" not in served.cluster.log


def test_no_secret_is_in_the_log_even_at_its_most_talkative(served: Served) -> None:
    assert PASSWORD not in served.cluster.log
    assert served.secured.passwords[ADMIN] not in served.cluster.log
    assert "PRIVATE KEY" not in served.cluster.log


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"listeners": "SSL://127.0.0.1:0"}, "ssl.keystore.location"),
        (
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "CRAM-MD5"},
            "CRAM-MD5 is not there",
        ),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}, "must name the users"),
        (
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                    'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil";'
                ),
            },
            "a login module",
        ),
        ({"listeners": "SSL://127.0.0.1:0", "principal.builder.class": "com.example.Builder"}, "principal.builder"),
    ],
)
def test_a_node_that_cannot_do_what_it_is_told_does_not_start(config: dict[str, str], words: str) -> None:
    protocol = config["listeners"].partition(":")[0]
    with pytest.raises(NodeError, match=words), Cluster(config={**config, "security.inter.broker.protocol": protocol}):
        pass


def test_old_versions_of_tls_are_not_spoken(served: Served) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")

    async def test() -> None:
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", served.ports["SSL"], ssl=context)

    asyncio.run(test())


def test_commands_take_a_client_properties_and_profiles_remember_it(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kavka.cli.commands import run

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config = tmp_path / "client.properties"
    lines = options(served, "SASL_SSL", "SCRAM-SHA-512") | {"bootstrap.servers": served.bootstrap("SASL_SSL")}
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    assert run(["--config", str(config), "topics", "create", "by-command"]) == 0
    assert run(["topics", "list", "--client-config", str(config)]) == 0
    assert "by-command" in capsys.readouterr().out
    bootstrap = served.bootstrap("SASL_SSL")
    assert run(["profile", "set", "safe", "--bootstrap", bootstrap, "--client-config", str(config)]) == 0
    assert run(["topics", "list"]) == 0
    assert "by-command" in capsys.readouterr().out
    config.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")
    assert run(["topics", "list"]) == 1
    assert "must say who logs in" in capsys.readouterr().err
