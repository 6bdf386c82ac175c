"""What was once wrong in Kafka or its like, by the number of its advisory, where it concerns how clients get in."""

from __future__ import annotations

import asyncio
import hmac
import struct
from collections.abc import Iterator

import pytest

from every_listener import PASSWORD, Served, options, serving
from kavka.broker.sasl.plain import Plain
from kavka.client import ConfigResource, ResourceType, blocking
from kavka.model.errors import InvalidRequest, SaslAuthenticationFailed, UnsupportedSaslMechanism
from kavka.net.session import Session
from kavka.protocol.header import encode_request
from kavka.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest

BROKER = ConfigResource(ResourceType.BROKER, "1")
JAAS = "listener.name.sasl_ssl.plain.sasl.jaas.config"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("secured")) as node:
        yield node


@pytest.fixture
def admin(served: Served) -> Iterator[blocking.Client]:
    with blocking.Client(served.bootstrap("PLAINTEXT")) as client:
        yield client


def said(served: Served, protocol: str, *frames: bytes) -> bytes:
    """All that a node answers to some frames, until it hangs up."""

    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.ports[protocol])
        writer.write(b"".join(frames))
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    return asyncio.run(talk())


def log_in(token: bytes) -> list[bytes]:
    return [
        encode_request(1, 1, "x", SaslHandshakeRequest(mechanism="PLAIN")),
        encode_request(2, 2, "x", SaslAuthenticateRequest(auth_bytes=token)),
    ]


def test_cve_2017_12610_nobody_becomes_somebody_else_by_an_authorization_id(served: Served) -> None:
    token = f"bob\0alice\0{PASSWORD}".encode()
    answer = said(served, "SASL_PLAINTEXT", *log_in(token))
    assert b"Client requested an authorization id that is different from username" in answer


def test_cve_2021_38153_strangers_take_the_same_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    right = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return right(one, other)

    monkeypatch.setattr("hmac.compare_digest", compare)
    mechanism = Plain({"alice": PASSWORD}, b"secret")
    for token in (b"\0alice\0x", b"\0eve\0" + b"x" * 500, b"\0alice\0" + PASSWORD[:-1].encode()):
        with pytest.raises(SaslAuthenticationFailed):
            mechanism.begin(Session(1, "SASL_SSL", "127.0.0.1", 1)).respond(token)
    assert compared == [(32, 32)] * 3


@pytest.mark.parametrize("size", [(1 << 19) + 1, 1 << 30, -5, 0x47455420])
def test_cve_2022_34917_strangers_announce_no_large_requests(served: Served, size: int) -> None:
    assert said(served, "SASL_PLAINTEXT", struct.pack(">i", size) + b"x" * 100) == b""


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "com.example.Evil",
    ],
)
def test_cve_2025_27819_no_class_is_named_by_altering_settings(admin: blocking.Client, module: str) -> None:
    with pytest.raises(InvalidRequest, match="login module"):
        admin.admin.alter_configs(BROKER, set={JAAS: f'{module} required user.provider.url="ldap://127.0.0.1:1";'})


def test_cve_2024_31141_no_value_is_taken_from_a_file(admin: blocking.Client) -> None:
    value = "${file:/etc/passwd:root}"
    admin.admin.alter_configs(BROKER, set={"plugin.of.nobody": value})
    shown = admin.admin.describe_configs(BROKER)[BROKER]["plugin.of.nobody"]
    assert shown.value in (None, value)
    admin.admin.alter_configs(BROKER, delete=["plugin.of.nobody"])


def test_cve_2026_33558_nothing_secret_is_logged_or_described(served: Served, admin: blocking.Client) -> None:
    with (
        pytest.raises(SaslAuthenticationFailed),
        blocking.Client(
            served.bootstrap("SASL_SSL"), security=options(served, "SASL_SSL", "PLAIN", "alice", "a-wrong-password")
        ),
    ):
        pass
    log = served.cluster.log
    loggers = ConfigResource(ResourceType.BROKER_LOGGER, "1")
    assert admin.admin.describe_configs(loggers)[loggers]["kavka.net.login"].value == "DEBUG"
    for secret in (PASSWORD, "a-wrong-password", "BEGIN PRIVATE KEY"):
        assert secret not in log
        assert secret not in str(admin.admin.describe_configs(BROKER))


def test_users_that_settings_name_come_and_go_while_a_node_runs(served: Served, admin: blocking.Client) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    carol = options(served, "SASL_SSL", "PLAIN", "carol", "singing")
    with pytest.raises(SaslAuthenticationFailed):
        blocking.Client(served.bootstrap("SASL_SSL"), security=carol)
    admin.admin.alter_configs(BROKER, set={JAAS: f'{module} required user_carol="singing";'})
    with blocking.Client(served.bootstrap("SASL_SSL"), security=carol) as client:
        assert client.admin.list_topics() is not None
    admin.admin.alter_configs(BROKER, delete=[JAAS])
    with pytest.raises(SaslAuthenticationFailed):
        blocking.Client(served.bootstrap("SASL_SSL"), security=carol)


def test_a_mechanism_that_is_taken_away_is_offered_no_more(served: Served, admin: blocking.Client) -> None:
    key = "listener.name.sasl_ssl.sasl.enabled.mechanisms"
    alice = options(served, "SASL_SSL", "PLAIN")
    with blocking.Client(served.bootstrap("SASL_SSL"), security=alice) as client:
        assert client.admin.list_topics() is not None
    admin.admin.alter_configs(BROKER, set={key: "SCRAM-SHA-256,SCRAM-SHA-512"})
    with pytest.raises(UnsupportedSaslMechanism):
        blocking.Client(served.bootstrap("SASL_SSL"), security=alice)
    admin.admin.alter_configs(BROKER, delete=[key])
    with blocking.Client(served.bootstrap("SASL_SSL"), security=alice) as client:
        assert client.admin.list_topics() is not None
