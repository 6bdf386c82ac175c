"""The table of commands for people who come from Kafka's tools or rpk: every command of ours runs, in order."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.cli.commands import run
from kavka.cli.menu import MENU, load
from kavka.client import blocking
from kavka.testing.cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "switching.md"
ADMIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="a";'
EVERYTHING = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="a" user_admin="a";'
    ),
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",  # who nobody knows is whoever asks the registry
    "delegation.token.secret.key": "the key of all tokens",
    "kavka.registry.listener": "127.0.0.1:0",
    "kavka.audit.enable": "true",
    "kavka.audit.topic.enable": "true",
    "remote.log.storage.system.enable": "true",
}


def rows() -> list[str]:
    """The commands of the last column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line)[-2].strip() for line in lines[1:]]
    return [cell.strip("`") for cell in cells]


def runs(arguments: list[str]) -> None:
    """Run what goes on until it is stopped, until it is ready."""
    if arguments[0] == "console":
        ready = "http://"
    else:
        Path("server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs=served-data\n")
        ready, arguments = "", [*arguments, "--ready-file", f"{arguments[0]}.json"]
    log = Path(f"{arguments[0]}.log")
    with log.open("w") as output:
        command = [str(Path(sys.executable).parent / "kavka"), *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    ends = time.monotonic() + 120
    while not (ready in log.read_text() if ready else Path(f"{arguments[0]}.json").exists()):
        assert time.monotonic() < ends, log.read_text()
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == (143 if arguments[0] == "console" else 0), log.read_text()


def lay_out(folder: Path) -> None:
    """What the commands of the page find where they are run."""
    (folder / "lines.txt").write_text("one\ntwo\n")
    (folder / "keyed.txt").write_text("a:three\nb:four\n")
    (folder / "password.txt").write_text("secret\n")
    (folder / "sale.avsc").write_text(
        '{"type": "record", "name": "Sale", "fields": [{"name": "item", "type": "string"}]}'
    )
    (folder / "sales.json").write_text('{"item": "apple"}\n')
    (folder / "client.properties").write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={ADMIN}\n"
    )


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A node that has everything, and somebody who may do anything."""
    monkeypatch.chdir(tmp_path)
    lay_out(tmp_path)
    config = {**EVERYTHING, "kavka.remote.storage.url": f"file://{tmp_path}/store"}
    with Cluster(config=config, disks=2) as running:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("KAVKA_BOOTSTRAP", running.bootstrap)
        monkeypatch.setenv("KAVKA_CLIENT_CONFIG", "client.properties")
        yield running


def test_every_command_does_its_work(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows()
    assert len(found) > 70
    places = {
        "http://127.0.0.1:8081": cluster.registry,
        "127.0.0.1:9092": cluster.bootstrap,
        "s3://bucket/prefix": f"file://{tmp_path}/store",
        "/disk2/kavka": str(cluster.log_dirs()[1]),
    }
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": ADMIN}
    with blocking.Client(cluster.bootstrap, security=login) as client:
        client.admin.create_topic("shop")
        client.admin.create_topic("history", configs={"remote.storage.enable": "true"})
        ends = time.monotonic() + 60
        while "__remote_log_metadata" not in {topic.name for topic in client.admin.list_topics(internal=True)}:
            assert time.monotonic() < ends
            time.sleep(0.05)
        with client.producer(transactional_id="shop-1") as producer:
            producer.begin()
            producer.send("shop", b"one")
            producer.flush()
            for command in found:
                for said, place in places.items():
                    command = command.replace(said, place)
                name, *arguments = shlex.split(command)
                assert name == "kavka", command
                if arguments[0] in ("serve", "console") or arguments[:2] == ["cluster", "up"]:
                    runs(arguments)
                    continue
                code = run(arguments)
                shown = capsys.readouterr()
                assert code == 0, f"{command}: {shown.err}"
                if arguments[:2] == ["tokens", "create"]:
                    places["$HMAC"] = json.loads(shown.out)[0]["hmac"]


def test_every_command_of_ours_is_on_the_page() -> None:
    def leaves(prefix: str, command: Any) -> list[str]:
        if not hasattr(command, "commands"):
            return [prefix]
        return [one for name, each in command.commands.items() for one in leaves(f"{prefix} {name}", each)]

    text = re.sub(r"\s+", " ", PAGE.read_text())
    every = [name for top in MENU for name in leaves(top, load(top)) if top != "pipeline"]
    assert [name for name in every if not re.search(f"`kavka {name}[ `]", text)] == []


def test_the_page_names_every_tool_that_kafka_has() -> None:
    text = PAGE.read_text()
    tools = (
        "acls broker-api-versions client-metrics cluster configs console-consumer console-producer "
        "console-share-consumer consumer-groups consumer-perf-test delegation-tokens delete-records dump-log "
        "e2e-latency features get-offsets groups leader-election log-dirs metadata-quorum metadata-shell "
        "producer-perf-test reassign-partitions server-start share-consumer-perf-test share-groups storage "
        "streams-application-reset streams-groups topics transactions"
    )
    assert [tool for tool in tools.split() if f"kafka-{tool}.sh" not in text] == []
