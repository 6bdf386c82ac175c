"""Kafka's Java client logs in to Kavka by OAUTHBEARER, with tokens of a server, and by GSSAPI."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from jvm.java_tools import Java, Outcome
from jvm.tools import TOOLS

from http_server import answering, http_server
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured
from kdc import REALM, kdc, missing

ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
KEY, ANOTHER = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("k", "x"))
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


class Doors(NamedTuple):
    """A listener of each protocol."""

    made: Secured
    ports: dict[str, int]

    @property
    def config(self) -> dict[str, str]:
        where = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        return {**self.made.tls, "listeners": where, "security.inter.broker.protocol": PROTOCOLS[0]}

    def topics(self, java: Java, protocol: str, **properties: str) -> Outcome:
        """kafka-topics --list, in a JVM that is told by the environment what it may do."""
        lines = {"security.protocol": protocol, "default.api.timeout.ms": "20000", "request.timeout.ms": "15000"}
        path = self.made.folder / "client.properties"
        given = {**lines, **self.made.trust, **properties}
        path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        where = f"localhost:{self.ports[protocol]}"
        arguments = ["--bootstrap-server", where, "--list", "--command-config", str(path)]
        return java.run_alone(f"{TOOLS}TopicCommand", arguments)


@pytest.fixture
def doors(tmp_path: Path) -> Doors:
    return Doors(Secured(tmp_path / "secured"), dict(zip(PROTOCOLS, free_ports(2), strict=True)))


def answer(key: RSAKey) -> bytes:
    now = int(time.time())
    claims = {"sub": "alice", "iat": now, "exp": now + 600, "scope": "kafka"}
    token = jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key, algorithms=["RS256"])
    return json.dumps({"access_token": token, "expires_in": 600, "token_type": "Bearer"}).encode()


def test_javas_client_logs_in_with_a_bearer_token(
    java: Java, doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    config = {
        **doors.config,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        ALLOWED: keys.as_uri(),
    }

    def login(url: str, protocol: str) -> Outcome:
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-D{ALLOWED}={url}")
        properties = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="me" clientSecret="hush";',
        }
        return doors.topics(java, protocol, **properties)

    with Cluster(config=config):
        with http_server(answering(answer(KEY), headers="Content-Type: application/json\r\n")) as (url, requests):
            for protocol in PROTOCOLS:
                login(url, protocol).must_succeed()
            assert requests
        with http_server(answering(answer(ANOTHER), headers="Content-Type: application/json\r\n")) as (url, _):
            assert '{"status":"invalid_token"}' in login(url, "SASL_SSL").said


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_javas_client_logs_in_with_a_ticket(
    java: Java, doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    with kdc(tmp_path) as kerberos:
        keytab, keytabs = kerberos.add("kafka/localhost"), {name: kerberos.add(name) for name in ("alice", "eve")}
        mine = f'{module} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        config = {
            **doors.config,
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](a.*)",  # eve is nobody
            **{f"listener.name.{name.lower()}.gssapi.sasl.jaas.config": mine for name in PROTOCOLS},
        }
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kerberos.environment['KRB5_CONFIG']}")
        with Cluster(config=config, env=kerberos.environment):

            def login(user: str, protocol: str) -> Outcome:
                properties = {
                    "sasl.mechanism": "GSSAPI",
                    "sasl.kerberos.service.name": "kafka",
                    "sasl.jaas.config": f'{module} keyTab="{keytabs[user]}" principal="{user}@{REALM}";',
                }
                return doors.topics(java, protocol, **properties)

            for protocol in PROTOCOLS:
                login("alice", protocol).must_succeed()
            refused = login("eve", "SASL_SSL")
            assert "SaslAuthenticationException" in refused.said
            assert "invalid credentials with SASL mechanism GSSAPI" in refused.said
