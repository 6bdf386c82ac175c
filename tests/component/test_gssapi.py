"""GSSAPI against a running node, with tickets of a real Kerberos server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crash.raw import Raw
from kavka.client.blocking import Client
from kavka.model.errors import SaslAuthenticationFailed
from kavka.protocol.schemas.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kavka.testing import Cluster
from kavka.testing.process import NodeError
from kdc import REALM, Kdc, kdc, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

SERVICE = "kafka/localhost"


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with kdc(tmp_path_factory.mktemp("kdc")) as running:
        yield running


def config(keytab: Path, **others: str) -> dict[str, str]:
    jaas = (
        f'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="{keytab}" '
        f'principal="{SERVICE}@{REALM}";'
    )
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2](admin-.*)s/-.*//,DEFAULT",
        "listener.name.plaintext.gssapi.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        **others,
    }


@pytest.fixture(scope="module")
def node(kerberos: Kdc) -> Iterator[Cluster]:
    with Cluster(config=config(kerberos.add(SERVICE)), env=kerberos.environment) as cluster:
        yield cluster


def log_in(node: Cluster, kerberos: Kdc, principal: str, keytab: Path, monkeypatch: Any) -> tuple[int, int]:
    """The error codes of a login, and of a question that only super users may ask."""
    from kavka.net.kerberos import Login
    from kavka.security.sasl.gssapi import GssapiClient

    for key, value in kerberos.environment.items():
        monkeypatch.setenv(key, value)
    with closing(Raw(node.bootstrap)) as raw:
        context = Login(f"{principal}@{REALM}", str(keytab)).context("kafka", "localhost")
        code = raw.log_in("GSSAPI", GssapiClient(context))
        if code:
            return code, 0
        return code, raw.call(DescribeUserScramCredentialsRequest(users=None), 0).error_code


def test_a_ticket_lets_in_and_rules_say_who_it_is(node: Cluster, kerberos: Kdc, monkeypatch: Any) -> None:
    assert log_in(node, kerberos, "admin/here", kerberos.add("admin/here"), monkeypatch) == (0, 0)
    assert log_in(node, kerberos, "alice", kerberos.add("alice"), monkeypatch) == (0, 31)


def test_our_client_logs_in_by_keytab_and_by_ticket_cache(
    node: Cluster, kerberos: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    keytab = kerberos.add("admin/there")
    common = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
    }
    bootstrap = node.bootstrap.replace("127.0.0.1", "localhost")
    for key, value in kerberos.environment.items():
        monkeypatch.setenv(key, value)
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
        f'keyTab="{keytab}" principal="admin/there@{REALM}";'
    )
    with Client(bootstrap, security={**common, "sasl.jaas.config": jaas}) as client:
        assert client.admin.describe_scram_users() == {}
    for key, value in kerberos.ticket("admin/there", keytab).items():
        monkeypatch.setenv(key, value)
    with Client(bootstrap, security=common) as client:
        assert client.admin.describe_scram_users() == {}
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kerberos.folder}/none")
    with pytest.raises(SaslAuthenticationFailed):
        Client(bootstrap, security=common)


def test_garbage_lets_nobody_in(node: Cluster) -> None:
    class Garbage:
        def begin(self) -> bytes:
            return b"\x60\x82garbage"

        def respond(self, challenge: bytes) -> bytes | None:
            return b""

    with closing(Raw(node.bootstrap)) as raw:
        assert raw.log_in("GSSAPI", Garbage()) == SaslAuthenticationFailed.code


def test_a_ticket_for_another_service_is_none(node: Cluster, kerberos: Kdc, monkeypatch: Any) -> None:
    from kavka.net.kerberos import Login
    from kavka.security.sasl.gssapi import GssapiClient

    kerberos.add("other/localhost")
    for key, value in kerberos.environment.items():
        monkeypatch.setenv(key, value)
    context = Login(f"bob@{REALM}", str(kerberos.add("bob"))).context("other", "localhost")
    with closing(Raw(node.bootstrap)) as raw, pytest.raises(SaslAuthenticationFailed, match="isn't for us"):
        raw.log_in("GSSAPI", GssapiClient(context))


def test_without_a_ticket_there_is_no_login(kerberos: Kdc, monkeypatch: Any) -> None:
    from kavka.net.kerberos import Login
    from kavka.security.sasl.gssapi import GssapiClient

    for key, value in kerberos.environment.items():
        monkeypatch.setenv(key, value)
    keytab = kerberos.add("carol")
    context = Login(f"carol@{REALM}", str(keytab)).context("nowhere", "localhost")
    with pytest.raises(SaslAuthenticationFailed):
        GssapiClient(context).begin()


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        ({"sasl.kerberos.service.name": "other"}, "other is not the service of kafka/localhost"),
        ({"sasl.kerberos.principal.to.local.rules": "RULE:bad"}, "is no RULE"),
        ({"listener.name.plaintext.gssapi.sasl.jaas.config": "x.Y required;"}, "is no login module"),
    ],
)
def test_what_cannot_be_honoured_refuses_to_start(
    kerberos: Kdc, others: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    keytab = kerberos.folder / "kafka_localhost.keytab"
    if not keytab.exists():
        kerberos.add(SERVICE)
    with pytest.raises(NodeError, match=complaint), Cluster(config=config(keytab, **others), env=kerberos.environment):
        pass


def test_a_keytab_without_the_key_refuses_to_start(kerberos: Kdc, tmp_path: Path) -> None:
    with (
        pytest.raises(NodeError, match="keytab"),
        Cluster(config=config(tmp_path / "none.keytab"), env=kerberos.environment),
    ):
        pass
