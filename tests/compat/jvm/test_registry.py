"""Confluent's own Java client of the schema registry, as Flink ships it, with a node of ours."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from jvm.java_tools import QUICK_START, JavaError, fetch

from kavka.testing import Cluster
from kavka.testing.secured import Secured

SOURCE = Path(__file__).resolve().parent / "registry_java" / "kavka" / "compat" / "RegistryClient.java"
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
SAID = {
    "register": "1",
    "by id": ORDER,
    "id of it": "1",
    "evolve": "2",
    "version of it": "2",
    "compatible": "false",
    "why not": "false",
    "refused": "error 409 409",
    "versions": "[1, 2]",
    "latest": "2 2 AVRO",
    "level": "FULL",
    "level of it": "FULL",
    "mode": "READWRITE",
    "reference": "3",
    "subjects": "[basket-value, java-value]",
    "subjects of it": "[java-value]",
    "framed": "[0, 0, 0, 0, 1] true",
    "in use": "error 422 42206",
    "deleted": "[1]",
    "deleted for good": "[1]",
    "not there": "error 404 40401",
}

Ask = Callable[[str, Mapping[str, str]], dict[str, str]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Runs the client against a URL: what it says, by what it was asked."""
    lacking = [program for program in ("java", "javac") if shutil.which(program) is None]
    if lacking:
        pytest.skip(f"not on this machine: {', '.join(lacking)}")
    jars = fetch.registry_folder()
    if not fetch.is_complete(jars, fetch.REGISTRY_POM):
        pytest.skip(f"no registry client in {jars}: run python tools/kafka_jars/fetch.py")
    classes = tmp_path_factory.mktemp("registry")
    class_path = f"{classes}:{jars}/*"
    compiling = ["javac", "-nowarn", "--release", "17", "-cp", class_path, "-d", str(classes), str(SOURCE)]
    done = subprocess.run(compiling, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JavaError(done.stderr)

    def run(url: str, options: Mapping[str, str]) -> dict[str, str]:
        given = [f"{name}={value}" for name, value in options.items()]
        command = ["java", *QUICK_START, "-cp", class_path, "kavka.compat.RegistryClient", url, *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(line.split(": ", 1) for line in done.stdout.splitlines())

    return run


def test_the_java_client_works_unchanged(ask: Ask) -> None:
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as cluster:
        assert ask(cluster.registry, {}) == SAID


def test_it_logs_in_over_tls(ask: Ask, tmp_path: Path) -> None:
    made = Secured(tmp_path / "keys")
    config = {
        **made.tls,
        "kavka.registry.listener": "127.0.0.1:0",
        "kavka.registry.security.protocol": "SASL_SSL",
        "listener.name.registry.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    options = {
        "basic.auth.credentials.source": "USER_INFO",
        "schema.registry.ssl.truststore.location": str(made.folder / "ca.pem"),
        "schema.registry.ssl.truststore.type": "PEM",
    }
    with Cluster(config=config, users=["SCRAM-SHA-512=[name=alice,password=wonder]"]) as cluster:
        assert ask(cluster.registry, {**options, "basic.auth.user.info": "alice:wonder"}) == SAID
        wrong = ask(cluster.registry, {**options, "basic.auth.user.info": "alice:other"})
        assert set(wrong.values()) == {"error 401 401"}
