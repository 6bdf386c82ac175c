"""Kafka's own clients and tools on secured listeners, and stores that keytool made."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from jvm.java_tools import Java, Outcome

from every_listener import MECHANISMS, PASSWORD, WAYS, Served, serving
from kavka.client import blocking
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import MODULES

SECURED = WAYS[1:]
TOPICS, CONFIGS = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("secured")) as node:
        yield node


def options(served: Served, protocol: str, mechanism: str, user: str = "alice", password: str = PASSWORD) -> list[str]:
    found = [f"security.protocol={protocol}"]
    if "SSL" in protocol:
        found += ["ssl.truststore.type=PEM", f"ssl.truststore.location={served.authority}"]
    if mechanism:
        jaas = f'{MODULES[mechanism]} required username="{user}" password="{password}";'
        found += [f"sasl.mechanism={mechanism}", f"sasl.jaas.config={jaas}"]
    return found


def produce(java: Java, bootstrap: str, topic: str, count: int, given: list[str]) -> Outcome:
    return java.run("kavka.compat.Produce", [bootstrap, topic, "0", str(count), *given])


def run_tool(java: Java, main: str, served: Served, given: list[str], folder: Path, *arguments: str) -> Outcome:
    file = folder / "client.properties"
    file.write_text("\n".join(given))
    return java.run(
        main, ["--bootstrap-server", served.bootstrap("SASL_SSL"), "--command-config", str(file), *arguments]
    )


@pytest.mark.parametrize(("protocol", "mechanism"), SECURED)
def test_the_producer_and_the_consumer_get_in_every_way(
    java: Java, served: Served, topic: str, protocol: str, mechanism: str
) -> None:
    given = options(served, protocol, mechanism)
    bootstrap = served.bootstrap(protocol)
    assert produce(java, bootstrap, topic, 100, given).must_succeed().lines == ["100 acknowledged, offsets 0 to 99"]
    read = java.run("kavka.compat.Consume", [bootstrap, topic, "assign", "beginning", "100", *given])
    assert len(read.must_succeed().lines) == 101


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("eve", PASSWORD)])
def test_wrong_credentials_are_an_authentication_error(
    java: Java, served: Served, topic: str, mechanism: str, user: str, password: str
) -> None:
    given = options(served, "SASL_SSL", mechanism, user, password)
    said = produce(java, served.bootstrap("SASL_SSL"), topic, 1, given).said
    assert "SaslAuthenticationException" in said
    words = "Invalid username or password" if mechanism == "PLAIN" else "invalid credentials with SASL mechanism"
    assert words in said


def test_an_authority_that_is_not_believed_is_an_authentication_error(
    java: Java, served: Served, topic: str, tmp_path: Path
) -> None:
    from kavka.testing.authority import Authority

    (tmp_path / "other.pem").write_text(Authority().pem)
    given = [
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={tmp_path / 'other.pem'}",
    ]
    assert "SslAuthenticationException" in produce(java, served.bootstrap("SSL"), topic, 1, given).said


def test_a_client_that_shows_a_certificate_is_who_the_rules_say(java: Java, served: Served, topic: str) -> None:
    def given(file: str) -> list[str]:
        own = ["ssl.keystore.type=PEM", f"ssl.keystore.location={served.secured.folder / file}"]
        return [*options(served, "SSL", ""), *own]

    served.secured.issue("mallory.pem", "mallory")
    produce(java, served.bootstrap("SSL"), topic, 10, given("alice.pem")).must_succeed()
    assert "TopicAuthorizationException" in produce(java, served.bootstrap("SSL"), topic, 1, given("mallory.pem")).said


def test_the_tools_make_users_that_can_log_in(java: Java, served: Served, topic: str, tmp_path: Path) -> None:
    admin = options(served, "SASL_SSL", "SCRAM-SHA-256")
    run_tool(java, TOPICS, served, admin, tmp_path, "--create", "--topic", topic).must_succeed()
    user = ["--entity-type", "users", "--entity-name", "carol"]
    run_tool(
        java, CONFIGS, served, admin, tmp_path, "--alter", "--add-config", "SCRAM-SHA-512=[password=singing]", *user
    ).must_succeed()
    carol = options(served, "SASL_SSL", "SCRAM-SHA-512", "carol", "singing")
    assert topic not in run_tool(java, TOPICS, served, carol, tmp_path, "--list").must_succeed().lines


def test_stores_that_keytool_made_are_read(java: Java, tmp_path: Path) -> None:
    keytool = shutil.which("keytool")
    if keytool is None:
        pytest.skip("no keytool here: it comes with a JDK")
    password = "changeit-please"

    def make(*arguments: str) -> None:
        subprocess.run([keytool, *arguments, "-storepass", password], check=True, capture_output=True, cwd=tmp_path)

    make("-genkeypair", "-alias", "node", "-keyalg", "RSA", "-dname", "CN=localhost,O=Kavka", "-keystore", "key.jks",
         "-ext", "san=dns:localhost,ip:127.0.0.1", "-validity", "10", "-keypass", password)  # fmt: skip
    make("-exportcert", "-alias", "node", "-keystore", "key.jks", "-file", "node.crt")
    make("-importcert", "-noprompt", "-alias", "node", "-file", "node.crt", "-keystore", "trust.jks")
    stores = {
        "ssl.keystore.location": str(tmp_path / "key.jks"),
        "ssl.keystore.password": password,
        "ssl.truststore.location": str(tmp_path / "trust.jks"),
        "ssl.truststore.password": password,
    }
    (port,) = free_ports(1)
    config = {
        **stores,
        "listeners": f"SSL://127.0.0.1:{port}",
        "advertised.listeners": f"SSL://localhost:{port}",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
    }
    with Cluster(config=config):
        given = ["security.protocol=SSL", *(f"{key}={value}" for key, value in stores.items())]
        produce(java, f"localhost:{port}", "stores", 10, given).must_succeed()
        with blocking.Client(f"localhost:{port}", security={"security.protocol": "SSL", **stores}) as client:
            assert [topic.name for topic in client.admin.list_topics()] == ["stores"]
