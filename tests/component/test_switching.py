"""The table of commands for people who come from Kafka's tools or rpk: every command of ours runs, in order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kavka.cli.commands import run
from kavka.testing.cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "switching.md"


def rows() -> list[str]:
    """The commands of the last column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line)[-2].strip() for line in lines[1:]]
    return [cell.strip("`") for cell in cells]


def serve(command: list[str]) -> None:
    """Run a node until it is ready, and stop it."""
    Path("server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs=served-data\n")
    node = subprocess.Popen([str(Path(sys.executable).parent / "kavka"), *command, "--ready-file", "ready.json"])
    ends = time.monotonic() + 60
    while not Path("ready.json").exists():
        assert time.monotonic() < ends
        assert node.poll() is None
        time.sleep(0.05)
    node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0


def test_every_command_does_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("one\ntwo\n")
    Path("keyed.txt").write_text("a:three\nb:four\n")
    Path("password.txt").write_text("secret\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    found = rows()
    assert len(found) > 40
    with Cluster() as cluster:
        monkeypatch.setenv("KAVKA_BOOTSTRAP", cluster.bootstrap)
        for command in found:
            name, *arguments = shlex.split(command)
            assert name == "kavka", command
            if arguments[0] == "serve":
                serve(arguments)
                continue
            code = run(arguments)
            shown = capsys.readouterr()
            assert code == 0, f"{command}: {shown.err}"
            os.environ["KAVKA_BOOTSTRAP"] = cluster.bootstrap


def test_the_page_names_every_tool_that_kafka_has() -> None:
    text = PAGE.read_text()
    tools = (
        "acls broker-api-versions client-metrics cluster configs console-consumer console-producer "
        "console-share-consumer consumer-groups consumer-perf-test delegation-tokens delete-records dump-log "
        "e2e-latency features get-offsets groups leader-election metadata-quorum metadata-shell producer-perf-test "
        "reassign-partitions server-start share-groups storage streams-application-reset topics transactions"
    )
    assert [tool for tool in tools.split() if f"kafka-{tool}.sh" not in text] == []
