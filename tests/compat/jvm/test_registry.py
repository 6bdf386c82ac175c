"""Confluent's Java client of the registry and its serializers, as Flink and Pinot ship them, with a node of ours."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jvm.java_tools import QUICK_START, JavaError, fetch

from kavka.client.registry import Schema
from kavka.client.registry.blocking import SchemaRegistry
from kavka.client.schemas import Avro
from kavka.testing import Cluster
from kavka.testing.secured import Secured

SOURCES = sorted((Path(__file__).resolve().parent / "registry_java" / "kavka" / "compat").glob("*.java"))
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

Run = Callable[..., list[str]]
Ask = Callable[[str, Mapping[str, str]], dict[str, str]]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs one of our drivers: the lines that it says."""
    lacking = [program for program in ("java", "javac") if shutil.which(program) is None]
    if lacking:
        pytest.skip(f"not on this machine: {', '.join(lacking)}")
    jars = fetch.registry_folder()
    if not fetch.is_complete(jars, fetch.REGISTRY_POM):
        pytest.skip(f"no registry client in {jars}: run python tools/kafka_jars/fetch.py")
    classes = tmp_path_factory.mktemp("registry")
    class_path = f"{classes}:{jars}/*"
    compiling = ["javac", "-nowarn", "--release", "17", "-cp", class_path, "-d", str(classes), *map(str, SOURCES)]
    done = subprocess.run(compiling, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JavaError(done.stderr)

    def run(driver: str, *arguments: str) -> list[str]:
        command = ["java", *QUICK_START, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", class_path]
        command += [f"kavka.compat.{driver}", *arguments]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.splitlines()

    return run


@pytest.fixture(scope="module")
def ask(java: Run) -> Ask:
    """Runs the client against a URL: what it says, by what it was asked."""

    def run(url: str, options: Mapping[str, str]) -> dict[str, str]:
        said = java("RegistryClient", url, *(f"{name}={value}" for name, value in options.items()))
        return dict(line.split(": ", 1) for line in said if ": " in line)

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


@dataclass
class Order:
    id: int
    note: str = ""


def test_records_go_to_java_s_serializers_and_back(java: Run) -> None:
    with (
        Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as cluster,
        SchemaRegistry(cluster.registry) as ours,
    ):
        by_class = Avro(ours, Order)
        written = ours.run(by_class.serialize("orders", Order(-7, "from Python")))
        assert written is not None
        schema = ours.latest("orders-value").schema.text
        wider = json.loads(schema)
        wider["fields"].append({"name": "more", "type": "int", "default": 0})
        ours.register("orders-value", Schema(json.dumps(wider)))
        newer = ours.run(Avro[Any](ours, json.dumps(wider)).serialize("orders", {"id": 1, "note": "", "more": 5}))
        assert newer is not None
        by_java, *read = java("AvroRecords", cluster.registry, "orders", schema, written.hex(), newer.hex())
        assert [json.loads(line) for line in read] == [
            {"id": -7, "note": "from Python"},
            {"id": 1, "note": "", "more": 5},
        ]
        assert bytes.fromhex(by_java)[:5] == written[:5]
        assert ours.run(by_class.deserialize("orders", bytes.fromhex(by_java))) == Order((1 << 63) - 1, "от Java")
        assert ours.versions("orders-value") == [1, 2]
