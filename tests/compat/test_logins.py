"""Others' Python clients log in by OAUTHBEARER and GSSAPI, and are told so where they may not."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokens
from aiokafka.errors import KafkaConnectionError as AioConnectionError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from joserfc import jwt
from joserfc.jwk import RSAKey
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError
from kafka.net.sasl.oauth import AbstractTokenProvider

from kavka.testing import Cluster
from kavka.testing.secured import Secured
from kdc import REALM, Kdc, kdc, missing, tool

KEY, ANOTHER = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("k", "x"))


def token(key: RSAKey = KEY) -> str:
    now = int(time.time())
    claims = {"sub": "alice", "iat": now, "exp": now + 600}
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key, algorithms=["RS256"])


class Tokens(AbstractTokenProvider):
    """What kafka-python asks for tokens."""

    def __init__(self, key: RSAKey) -> None:
        super().__init__()
        self._key = key

    def token(self) -> str:
        return token(self._key)


class LaterTokens(AioTokens):
    """What aiokafka asks for tokens."""

    def __init__(self, key: RSAKey) -> None:
        self._key = key

    async def token(self) -> str:
        return token(self._key)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="module")
def by_token(made: Secured) -> Iterator[Cluster]:
    path = made.folder / "jwks.json"
    path.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    config = {
        **made.tls,
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": path.as_uri(),
    }
    with Cluster(config=config) as cluster:
        yield cluster


async def send(**options: object) -> int:
    """The offset of one record."""
    producer = AIOKafkaProducer(**options)
    try:
        await producer.start()
        sent = await producer.send_and_wait("logins", b"x")
    finally:
        await producer.stop()
    return int(sent.offset)


INVALID = '{"status":"invalid_token"}'
"""What who has a token that is not good is told, as RFC 7628 has it."""


def test_kafka_python_logs_in_with_a_bearer_token(
    by_token: Cluster, made: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    def topics(key: RSAKey) -> list[str]:
        client = KafkaAdminClient(
            bootstrap_servers=by_token.bootstrap,
            security_protocol="SASL_SSL",
            ssl_cafile=str(made.folder / "ca.pem"),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(key),
            bootstrap_timeout_ms=2000,
        )
        try:
            return list(client.list_topics())
        finally:
            client.close()

    assert isinstance(topics(KEY), list)
    ends = time.monotonic() + 60
    while "SaslAuthenticationFailedError" not in caplog.text:  # it drops an answer that comes in one with the hang-up
        with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
            topics(ANOTHER)
        assert time.monotonic() < ends, caplog.text
    assert INVALID in caplog.text


def test_aiokafka_logs_in_with_a_bearer_token(
    by_token: Cluster, made: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    def options(key: RSAKey) -> dict[str, object]:
        return {
            "bootstrap_servers": by_token.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=str(made.folder / "ca.pem")),
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": LaterTokens(key),
        }

    assert asyncio.run(send(**options(KEY))) == 0
    with pytest.raises(AioConnectionError, match="Unable to bootstrap"):
        asyncio.run(send(**options(ANOTHER)))
    # it takes the refusal for the end of the log-in, and goes on, which ends the connection
    assert "KafkaConnectionError: Connection at" in caplog.text
    assert "Unexpected Kafka request of type Metadata during SASL authentication" in by_token.log


def test_confluent_kafka_logs_in_with_a_bearer_token(by_token: Cluster, made: Secured) -> None:
    def brokers(key: RSAKey) -> int:
        told: list[Any] = []
        options: dict[str, Any] = {
            "bootstrap.servers": by_token.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(made.folder / "ca.pem"),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(key), time.time() + 600),
            "error_cb": told.append,
            "reconnect.backoff.ms": 1000,
        }
        admin = AdminClient(options)
        admin.poll(0)  # asks for the token
        try:
            return len(admin.list_topics(timeout=5).brokers)
        except KafkaException:
            while not any("SASL authentication error" in error.str() for error in told):
                admin.poll(1)
            raise

    assert brokers(KEY) == 1
    with pytest.raises(KafkaException):
        brokers(ANOTHER)


needs_kerberos = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with kdc(tmp_path_factory.mktemp("kdc")) as running:
        yield running


@pytest.fixture(scope="module")
def by_ticket(kerberos: Kdc) -> Iterator[Cluster]:
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{kerberos.add("kafka/127.0.0.1")}" principal="kafka/127.0.0.1@{REALM}";'
    )
    config = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.plaintext.gssapi.sasl.jaas.config": jaas,
    }
    with Cluster(config=config, env=kerberos.environment) as cluster:
        yield cluster


def use(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)


@needs_kerberos
def test_kafka_python_logs_in_with_a_ticket(by_ticket: Cluster, kerberos: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    use(kerberos.ticket("bob", kerberos.add("bob")), monkeypatch)
    client = KafkaAdminClient(
        bootstrap_servers=by_ticket.bootstrap, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI"
    )
    try:
        assert isinstance(client.list_topics(), list)
    finally:
        client.close()


@needs_kerberos
def test_aiokafka_logs_in_with_a_ticket(by_ticket: Cluster, kerberos: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    use(kerberos.ticket("carol", kerberos.add("carol")), monkeypatch)
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
    assert asyncio.run(send(bootstrap_servers=by_ticket.bootstrap, **options)) == 0


def librdkafka(by_ticket: Cluster, kerberos: Kdc, user: str) -> dict[str, Any]:
    """The options of librdkafka for a user, whose ticket it fetches itself."""
    return {
        "bootstrap.servers": by_ticket.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": f"{user}@{REALM}",
        "sasl.kerberos.keytab": str(kerberos.add(user)),
    }


@needs_kerberos
@pytest.mark.skipif(tool("kcat") is None, reason="needs make kerberos, or apt install kcat libsasl2-modules-gssapi-mit")
def test_librdkafka_logs_in_with_a_ticket(by_ticket: Cluster, kerberos: Kdc, tmp_path: Path) -> None:
    environment = {**kerberos.for_programs, "KRB5CCNAME": str(tmp_path / "tickets")}

    def kcat(*arguments: str, said: str = "", **options: str) -> subprocess.CompletedProcess[str]:
        given = {**librdkafka(by_ticket, kerberos, "dave"), **options}
        command = [str(tool("kcat")), *arguments, *(f"-X{key}={value}" for key, value in given.items())]
        return subprocess.run(command, input=said, env=environment, capture_output=True, timeout=60, text=True)

    sent = kcat("-P", "-t", "tickets", said="by ticket")
    assert sent.returncode == 0, sent.stderr
    assert kcat("-C", "-t", "tickets", "-e", "-q").stdout == "by ticket\n"
    (tmp_path / "tickets").unlink()
    refused = kcat("-L", "-m", "5", **{"sasl.kerberos.kinit.cmd": "true"})
    assert refused.returncode == 1
    assert "SASL authentication" in refused.stderr


CONFLUENT = """
import json, sys
from confluent_kafka import Producer
told = []
producer = Producer({**json.loads(sys.argv[1]), "error_cb": lambda error: told.append(error.name())})
producer.produce("tickets", b"x", on_delivery=lambda error, message: told.append(error or message.topic()))
while not told:
    producer.poll(1)
print(told[0])
"""
"""Sends a record and says to which topic it went, or what was in the way."""


@needs_kerberos
def test_confluent_kafka_logs_in_with_a_ticket(by_ticket: Cluster, kerberos: Kdc, tmp_path: Path) -> None:
    environment = {**kerberos.for_programs, "KRB5CCNAME": str(tmp_path / "tickets")}

    def said(**options: str) -> str:
        given = json.dumps({**librdkafka(by_ticket, kerberos, "erin"), **options})
        command = [sys.executable, "-c", CONFLUENT, given]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60, text=True, check=False)
        if "No provider for SASL mechanism GSSAPI" in done.stderr:
            pytest.skip("needs make kerberos: a confluent-kafka that knows Kerberos, which those on PyPI do not")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert said() == "tickets"
    (tmp_path / "tickets").unlink()
    assert said(**{"sasl.kerberos.kinit.cmd": "true"}) == "_AUTHENTICATION"
