"""All mechanisms on one listener: nothing secret is logged at any level, and nothing foreign is configured."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from crash.raw import Raw
from kavka.model.errors import InvalidRequest, SaslAuthenticationFailed, UnsupportedSaslMechanism
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kavka.protocol.schemas.create_delegation_token import CreateDelegationTokenRequest
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.security.sasl.oauthbearer import OAuthBearerClient
from kavka.security.sasl.plain import PlainClient
from kavka.security.sasl.scram import TOKEN_AUTH, Mechanism, ScramClient, salted_password
from kavka.testing import Cluster
from kavka.testing.process import NodeError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD, WRONG, SCRAM_PASSWORD, KEY = "plain-secret-1", "wrong-secret-2", "scram-secret-3", "token-secret-4"
JAAS_KEY = "listener.name.plaintext.plain.sasl.jaas.config"
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    JAAS_KEY: f'{PLAIN} required user_admin="{PASSWORD}";',
    "delegation.token.secret.key": KEY,
    "kavka.log.level": "debug",
    "kavka.metrics.listener": "127.0.0.1:0",
}


def log_in(cluster: Cluster, mechanism: str, client: object) -> int:
    with closing(Raw(cluster.bootstrap)) as raw:
        return raw.log_in(mechanism, client)  # type: ignore[arg-type]


def test_no_secret_is_in_any_log(tmp_path: Path) -> None:
    key = RSAKey.generate_key(2048, {"kid": "k"})
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    url = path.as_uri()
    keys = {"sasl.oauthbearer.jwks.endpoint.url": url, "org.apache.kafka.sasl.oauthbearer.allowed.urls": url}
    now = int(time.time())
    claims = {"sub": "alice", "iat": now, "exp": now + 600}
    good, bad = (
        jwt.encode({"alg": "RS256", "kid": kid}, claims, key, algorithms=["RS256"]) for kid in ("k", "another")
    )
    salted = salted_password(Mechanism.SCRAM_SHA_256, SCRAM_PASSWORD, b"salt", 4096)
    with Cluster(config={**CONFIG, **keys}) as cluster:
        with closing(Raw(cluster.bootstrap)) as admin:
            assert admin.log_in("PLAIN", PlainClient("admin", PASSWORD)) == 0
            row = ScramCredentialUpsertion(
                name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted
            )
            admin.call(AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]), 0)
            token = admin.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
        hmac = b64encode(token.hmac).decode()
        failed = SaslAuthenticationFailed.code
        assert log_in(cluster, "PLAIN", PlainClient("admin", WRONG)) == failed
        for name, password, extensions, code in (
            ("alice", SCRAM_PASSWORD, None, 0),
            ("alice", WRONG, None, failed),
            (token.token_id, hmac, {TOKEN_AUTH: "true"}, 0),
            (token.token_id, WRONG, {TOKEN_AUTH: "true"}, failed),
        ):
            client = ScramClient(Mechanism.SCRAM_SHA_256, name, password, "nonce", extensions)
            assert log_in(cluster, "SCRAM-SHA-256", client) == code
        assert log_in(cluster, "OAUTHBEARER", OAuthBearerClient(good)) == 0
        assert log_in(cluster, "OAUTHBEARER", OAuthBearerClient(bad)) == failed
        assert log_in(cluster, "SCRAM-SHA-512", PlainClient("admin", PASSWORD)) == UnsupportedSaslMechanism.code
        with urlopen(f"http://{cluster.node(1).ready['metrics']}/metrics", timeout=30) as answer:
            rows = re.findall(
                r'^kavka_sasl_logins_total\{listener="PLAINTEXT",mechanism="(.+)",outcome="failed"\} (\S+)$',
                answer.read().decode(),
                re.MULTILINE,
            )
        refused = {mechanism: int(float(count)) for mechanism, count in rows}
        assert refused == {"PLAIN": 1, "SCRAM-SHA-256": 2, "OAUTHBEARER": 1, "Unknown": 1}
        cluster.stop()
        log = cluster.log
    for secret in (PASSWORD, WRONG, SCRAM_PASSWORD, KEY, hmac, good, bad, salted.hex(), b64encode(salted).decode()):
        assert secret not in log
    assert "failed authentication" in log


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "com.sun.security.auth.module.Krb5LoginModule",
        "os.system",
    ],
)
def test_no_login_module_but_those_of_the_mechanism_is_taken(module: str) -> None:
    line = f'{module} required user.provider.url="ldap://127.0.0.1:1/x" bindPassword="{PASSWORD}";'
    config = {**CONFIG, "sasl.enabled.mechanisms": "PLAIN"}
    with pytest.raises(NodeError, match="login module") as refused, Cluster(config={**config, JAAS_KEY: line}):
        pass
    assert PASSWORD not in str(refused.value)
    with Cluster(config=config) as cluster, closing(Raw(cluster.bootstrap)) as admin:
        assert admin.log_in("PLAIN", PlainClient("admin", PASSWORD)) == 0
        change = AlterableConfig(name=JAAS_KEY, config_operation=0, value=line)
        resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
        answer = admin.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert PASSWORD not in (answer.responses[0].error_message or "")
        assert answer.responses[0].error_code == InvalidRequest.code
        assert log_in(cluster, "PLAIN", PlainClient("admin", PASSWORD)) == 0
