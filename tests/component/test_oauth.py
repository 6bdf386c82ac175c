"""OAUTHBEARER against a running node: another's client, keys that are served and change, and a server that hangs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from joserfc import jwt
from joserfc.jwk import RSAKey

from crash.raw import Raw
from http_server import answering, http_server
from kavka.client.blocking import Client
from kavka.client.oauth import ALLOWED_URLS, BearerToken
from kavka.client.security import security_of
from kavka.model.errors import SaslAuthenticationFailed
from kavka.model.settings import SettingError
from kavka.security.sasl.oauthbearer import OAuthBearerClient
from kavka.testing import Cluster

OLD, NEW = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("old", "new"))


def document(*keys: RSAKey) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def token(key: RSAKey, seconds: int = 600, **claims: Any) -> str:
    now = int(time.time())
    all_claims = {"sub": "alice", "iat": now, "exp": now + seconds, "aud": "kafka", "iss": "me", **claims}
    return jwt.encode({"alg": "RS256", "kid": key.kid}, all_claims, key, algorithms=["RS256"])


@contextmanager
def node(url: str) -> Iterator[Cluster]:
    config = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "me",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice",
    }
    with Cluster(config=config) as cluster:
        yield cluster


def code_of(cluster: Cluster, bearer: str) -> int:
    with closing(Raw(cluster.bootstrap)) as raw:
        return raw.log_in("OAUTHBEARER", OAuthBearerClient(bearer))


class Keys:
    """What the server of the keys serves; it hangs while there are none."""

    def __init__(self, *keys: RSAKey) -> None:
        self.keys = keys

    def __call__(self, connection: Any, _: bytes) -> None:
        if not self.keys:
            connection.recv(1)
            return
        body = document(*self.keys)
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def test_tokens_of_keys_that_are_served_let_in_and_a_new_key_is_found() -> None:
    served = Keys(OLD)
    with http_server(served) as (url, _), node(url) as cluster:
        while code_of(cluster, token(OLD)):
            time.sleep(0.05)  # the keys are fetched beside the start
        for bad in (token(OLD, -60), token(OLD, aud="x"), token(OLD, iss="x"), token(NEW), "a.b.c"):
            assert code_of(cluster, bad) == SaslAuthenticationFailed.code
        served.keys = (NEW,)
        stranger = RSAKey.generate_key(2048, {"kid": "rotated"})
        served.keys = (NEW, stranger)
        while code_of(cluster, token(stranger)):
            time.sleep(0.05)  # the first that names it is refused, and has the keys fetched
        assert code_of(cluster, token(OLD)) == SaslAuthenticationFailed.code  # that key is no longer one
        assert cluster.log.count("eyJ") == 0


def test_a_server_that_hangs_keeps_nobody_but_those_who_need_it() -> None:
    served = Keys()
    with http_server(served) as (url, requests), node(url) as cluster:
        while not requests:
            time.sleep(0.01)
        for _ in range(3):
            assert code_of(cluster, token(OLD)) == SaslAuthenticationFailed.code
        assert cluster.stop() == 0


def test_our_client_logs_in_with_a_token_of_a_function_and_of_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(document(OLD))
    common = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}

    def topics(cluster: Cluster, **options: Any) -> Any:
        with Client(cluster.bootstrap, security={**common, **options}) as client:
            return client.admin.list_topics()

    async def later() -> BearerToken:
        return BearerToken(token(OLD))

    with node(path.as_uri()) as cluster:
        assert topics(cluster, **{"sasl.oauthbearer.token": lambda: token(OLD)}) == []
        assert topics(cluster, **{"sasl.oauthbearer.token": later}) == []
        with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
            topics(cluster, **{"sasl.oauthbearer.token": lambda: token(NEW)})
        answer = json.dumps({"access_token": token(OLD), "expires_in": 600}).encode()
        with http_server(answering(answer)) as (url, requests):
            monkeypatch.setenv(ALLOWED_URLS, url)
            credentials = {
                "sasl.oauthbearer.token.endpoint.url": url,
                "sasl.oauthbearer.client.credentials.client.id": "me",
                "sasl.oauthbearer.client.credentials.client.secret": "hush",
            }
            assert topics(cluster, **credentials) == []
            assert len(requests) == 1
        kept = tmp_path / "token"
        kept.write_text(token(OLD))
        monkeypatch.setenv(ALLOWED_URLS, kept.as_uri())
        assert topics(cluster, **{"sasl.oauthbearer.token.endpoint.url": kept.as_uri()}) == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "must give tokens"),
        ({"sasl.oauthbearer.token": "no function"}, "no such setting"),
        ({"sasl.oauthbearer.token": 7}, "must be a function"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "is not among"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://x/"}, "must say who asks"),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://x/",
                "sasl.jaas.config": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                    'clientId="a" clientSecret="hush";'
                ),
            },
            "is not among",
        ),
        ({"sasl.login.callback.handler.class": "com.example.Handler"}, "package.module:name"),
        ({"sasl.login.callback.handler.class": "no.such:thing"}, "cannot be imported"),
    ],
)
def test_a_client_refuses_what_it_cannot_honour(
    options: dict[str, Any], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALLOWED_URLS, raising=False)
    with pytest.raises(SettingError) as refused:
        security_of({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **options})
    assert complaint in str(refused.value)
    assert "hush" not in str(refused.value)


def test_confluents_client_logs_in_with_a_token(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(document(OLD))

    def client(cluster: Cluster, bearer: str) -> AdminClient:
        config: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (bearer, time.time() + 600),
        }
        return AdminClient(config)

    with node(path.as_uri()) as cluster:
        assert client(cluster, token(OLD)).list_topics(timeout=30).brokers
        with pytest.raises(KafkaException):
            client(cluster, token(NEW)).list_topics(timeout=3)
