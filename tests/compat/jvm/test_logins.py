"""Kafka's Java client logs in to Kavka by OAUTHBEARER, with tokens of a server, and by GSSAPI."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from jvm.java_tools import Java, Outcome
from jvm.tools import TOOLS

from http_server import answering, http_server
from kavka.testing import Cluster
from kdc import REALM, kdc, missing

ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
KEY, ANOTHER = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("k", "x"))
SASL = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"}


def topics(java: Java, cluster: Cluster, folder: Path, **properties: str) -> Outcome:
    """kafka-topics --list, in a JVM that is told by the environment what it may do."""
    lines = {"security.protocol": "SASL_PLAINTEXT", "default.api.timeout.ms": "20000", "request.timeout.ms": "15000"}
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in {**lines, **properties}.items()))
    arguments = ["--bootstrap-server", cluster.bootstrap, "--list", "--command-config", str(path)]
    return java.run_alone(f"{TOOLS}TopicCommand", arguments)


def answer(key: RSAKey) -> bytes:
    now = int(time.time())
    claims = {"sub": "alice", "iat": now, "exp": now + 600, "scope": "kafka"}
    token = jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key, algorithms=["RS256"])
    return json.dumps({"access_token": token, "expires_in": 600, "token_type": "Bearer"}).encode()


def test_javas_client_logs_in_with_a_bearer_token(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    config = {
        **SASL,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        ALLOWED: keys.as_uri(),
    }

    def login(url: str) -> Outcome:
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-D{ALLOWED}={url}")
        properties = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="me" clientSecret="hush";',
        }
        return topics(java, cluster, tmp_path, **properties)

    with Cluster(config=config) as cluster:
        with http_server(answering(answer(KEY), headers="Content-Type: application/json\r\n")) as (url, requests):
            login(url).must_succeed()
            assert requests
        with http_server(answering(answer(ANOTHER), headers="Content-Type: application/json\r\n")) as (url, _):
            assert '{"status":"invalid_token"}' in login(url).said


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_javas_client_logs_in_with_a_ticket(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    with kdc(tmp_path) as kerberos:
        keytab, mine = kerberos.add("kafka/localhost"), kerberos.add("alice")
        config = {
            **SASL,
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.plaintext.gssapi.sasl.jaas.config": (
                f'{module} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
            ),
        }
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kerberos.environment['KRB5_CONFIG']}")
        with Cluster(config=config, env=kerberos.environment) as cluster:
            properties = {
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": f'{module} keyTab="{mine}" principal="alice@{REALM}";',
            }
            topics(java, cluster, tmp_path, **properties).must_succeed()
