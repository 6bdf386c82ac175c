"""kafka-storage format with users: whoever formats the directory and whoever serves it, they log in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jvm.java_tools import Java
from jvm.nodes import APACHE, CLUSTER_ID, KAVKA, NODE_ID, running

from kavka.cli.commands import run as run_command

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = {"alice": ("SCRAM-SHA-256", "wonder"), "bob": ("SCRAM-SHA-512", "builder")}
ADD = [
    part
    for name, (mechanism, password) in USERS.items()
    for part in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
]


def jaas(name: str, password: str) -> str:
    return f'{MODULE} required username="{name}" password="{password}";'


OVERRIDES = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(mechanism for mechanism, _ in USERS.values()),
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    **{
        f"listener.name.plaintext.{mechanism.lower()}.sasl.jaas.config": jaas(name, password)
        for name, (mechanism, password) in USERS.items()
    },
}


def format_by_kafka(java: Java, folder: Path) -> None:
    """Format folder/data with Kafka's tool."""
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "format.properties"
    lines = {
        "node.id": str(NODE_ID),
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": str(folder / "data"),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties), "--standalone", *ADD]
    java.run("kafka.tools.StorageTool", arguments).must_succeed()


def format_by_kavka(java: Java, folder: Path) -> None:
    """Format folder/data with our own command."""
    where = ["--data-dir", str(folder / "data"), "--cluster-id", CLUSTER_ID, "--override", f"node.id={NODE_ID}"]
    assert run_command(["format", *where, *ADD]) == 0


@pytest.mark.parametrize(
    ("make", "kind"),
    [(format_by_kafka, KAVKA), (format_by_kavka, KAVKA), (format_by_kavka, APACHE)],
    ids=["by-kafka-for-kavka", "by-kavka-for-kavka", "by-kavka-for-kafka"],
)
def test_the_users_of_a_fresh_directory_log_in(
    java: Java, tmp_path: Path, make: Callable[[Java, Path], None], kind: str
) -> None:
    make(java, tmp_path / "node")
    client = tmp_path / "client.properties"
    with running(kind, java, tmp_path / "node", OVERRIDES) as node:

        def listed(mechanism: str, name: str, password: str) -> str:
            client.write_text(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
                f"sasl.jaas.config={jaas(name, password)}\n"
            )
            arguments = ["--bootstrap-server", node.bootstrap, "--command-config", str(client), "--describe"]
            return java.run("kafka.admin.ConfigCommand", [*arguments, "--entity-type", "users"]).said

        for name, (mechanism, password) in USERS.items():
            said = listed(mechanism, name, password)
            for known, (of, _) in USERS.items():
                assert f"SCRAM credential configs for user-principal '{known}' are {of}=iterations=4096" in said
            assert "SaslAuthenticationException" in listed(mechanism, name, "wrong")
