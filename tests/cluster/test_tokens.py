"""Delegation tokens in a cluster whose listeners all have clients log in: asked for anywhere, good everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from json_names import documented
from kavka.client import DelegationToken, blocking
from kavka.model.errors import DelegationTokenNotFound, DelegationTokenRequestNotAllowed, SaslAuthenticationFailed
from kavka.testing import Cluster
from kavka.testing.secured import MODULES, SCRAM, Secured

Both = tuple[Cluster, Secured]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    made = Secured(tmp_path_factory.mktemp("secured"), {"alice": "wonderland"})
    config = {**made.nodes, "delegation.token.secret.key": "the key of all tokens"}
    with Cluster(nodes=3, config=config, users=made.users) as cluster:
        yield cluster, made


def by_token(made: Secured, token: DelegationToken) -> dict[str, str]:
    """The options of a client that logs in by a token."""
    hmac = b64encode(token.hmac).decode()
    jaas = f'{MODULES[SCRAM]} required username="{token.id}" password="{hmac}" tokenauth="true";'
    return {**made.client("alice"), "sasl.jaas.config": jaas}


def logged_in(address: str, options: dict[str, str]) -> bool:
    try:
        blocking.Client(address, security=options).close()
    except SaslAuthenticationFailed:
        return False
    return True


def wait_for(address: str, options: dict[str, str], wanted: bool) -> None:
    """A node learns of tokens from the metadata, some time after the controller has answered."""
    while logged_in(address, options) != wanted:
        time.sleep(0.05)


def test_a_token_of_any_node_logs_in_at_all_of_them_until_it_is_ended(secured: Both) -> None:
    cluster, made = secured
    nodes = cluster.bootstrap.split(",")
    for address in nodes:
        with blocking.Client(address, security=made.client("alice")) as alice:
            token = alice.admin.create_token(renewers=["User:admin"])
            assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:admin",))
            options = by_token(made, token)
            for each in nodes:
                wait_for(each, options, True)
            with (
                blocking.Client(address, security=options) as client,
                pytest.raises(DelegationTokenRequestNotAllowed),
            ):
                client.admin.create_token()
            with blocking.Client(address, security=made.client()) as admin:
                assert admin.admin.renew_token(token.hmac, period_ms=3_600_000) < token.expires_ms
            alice.admin.expire_token(token.hmac)
            with pytest.raises(DelegationTokenNotFound):
                alice.admin.expire_token(token.hmac)
            for each in nodes:
                wait_for(each, options, False)


def test_the_command_line_has_tokens(secured: Both, tmp_path: Path) -> None:
    cluster, made = secured
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in made.client("alice").items()))

    def kavka(*arguments: str) -> str:
        command = [sys.executable, "-m", "kavka", "--config", str(properties), "tokens", *arguments]
        environment = {**os.environ, "KAVKA_BOOTSTRAP": cluster.bootstrap}
        done = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    created = kavka("create", "--max-lifetime", "2", "--output", "json")
    documented("kavka tokens create", created)
    (made_,) = json.loads(created)
    assert made_["owner"] == "User:alice"
    while made_["id"] not in kavka("list", "--owner", "User:alice"):
        time.sleep(0.05)
    documented("kavka tokens list", kavka("list", "--output", "json"))
    assert "is good until" in kavka("renew", made_["hmac"], "--for", "1")
    documented("kavka tokens renew $HMAC", kavka("renew", made_["hmac"], "--output", "json"))
    assert "ends at" in kavka("expire", made_["hmac"], "--in", "1")
    documented("kavka tokens expire $HMAC", kavka("expire", made_["hmac"], "--output", "json"))


def test_tokens_are_asked_for_at_brokers_also_where_controllers_listen_in_plain_text(tmp_path: Path) -> None:
    made = Secured(tmp_path, {"alice": "wonderland"})
    config = {
        **made.nodes,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "super.users": "User:admin;User:ANONYMOUS",
        "delegation.token.secret.key": "the key of all tokens",
    }
    with Cluster(nodes=2, config=config, users=made.users) as cluster:
        for address in cluster.bootstrap.split(","):  # one of them is not the controller, and sends on what it is asked
            with blocking.Client(address, security=made.client("alice")) as alice:
                token = alice.admin.create_token()
                assert token.owner == "User:alice"
                wait_for(address, by_token(made, token), True)
                with blocking.Client(address, security=by_token(made, token)) as client:
                    with pytest.raises(DelegationTokenRequestNotAllowed):
                        client.admin.create_token()
                    with pytest.raises(DelegationTokenRequestNotAllowed):
                        client.admin.renew_token(token.hmac)
                alice.admin.expire_token(token.hmac)
