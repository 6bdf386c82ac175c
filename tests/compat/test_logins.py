"""Others' Python clients log in by OAUTHBEARER and GSSAPI, and are told so where they may not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokens
from aiokafka.errors import KafkaError as AioError
from joserfc import jwt
from joserfc.jwk import RSAKey
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from kavka.testing import Cluster
from kdc import REALM, Kdc, kdc, missing

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
def by_token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    path: Path = tmp_path_factory.mktemp("keys") / "jwks.json"
    path.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    config = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": path.as_uri(),
    }
    with Cluster(config=config) as cluster:
        yield cluster


async def send(**options: object) -> int:
    """The offset of one record."""
    producer = AIOKafkaProducer(security_protocol="SASL_PLAINTEXT", **options)
    try:
        await producer.start()
        sent = await producer.send_and_wait("logins", b"x")
    finally:
        await producer.stop()
    return int(sent.offset)


def test_kafka_python_logs_in_with_a_bearer_token(by_token: Cluster) -> None:
    def topics(key: RSAKey) -> list[str]:
        client = KafkaAdminClient(
            bootstrap_servers=by_token.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(key),
            bootstrap_timeout_ms=5000,
        )
        try:
            return list(client.list_topics())
        finally:
            client.close()

    assert isinstance(topics(KEY), list)
    with pytest.raises(KafkaError):
        topics(ANOTHER)


def test_aiokafka_logs_in_with_a_bearer_token(by_token: Cluster) -> None:
    def options(key: RSAKey) -> dict[str, object]:
        return {
            "bootstrap_servers": by_token.bootstrap,
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": LaterTokens(key),
        }

    assert asyncio.run(send(**options(KEY))) == 0
    with pytest.raises(AioError):
        asyncio.run(send(**options(ANOTHER)))


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
    assert asyncio.run(send(bootstrap_servers=by_ticket.bootstrap, sasl_mechanism="GSSAPI")) == 0
