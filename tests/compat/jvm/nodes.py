"""Starts the nodes that the cases talk to: a real Apache Kafka, and Kavka, both as processes of their own on loopback.

Both get the same server.properties, apart from ports and folders.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jvm.java_tools import Java

from kavka.testing.local import free_ports

APACHE, KAVKA = "apache", "kavka"
CLUSTER_ID = "Kavka-compat-cases-00g"
NODE_ID = 1
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

# One replica of everything, and no wait for a second member of a group.
SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # The cases write records of 2023: retention must not take them away between two looks.
    "log.initial.task.delay.ms": "3600000",
    "log.retention.check.interval.ms": "3600000",
}


class NodeError(Exception):
    """A node did not start; the text is what it said."""


@dataclass
class Node:
    """A running node."""

    kind: str
    bootstrap: str
    data_dir: Path
    log: Path
    process: subprocess.Popen[bytes]
    controller: str | None = None
    properties: Path | None = None
    address: tuple[str, int] = field(init=False)

    def __post_init__(self) -> None:
        host, port = self.bootstrap.rsplit(":", 1)
        self.address = host, int(port)

    def stop(self) -> int:
        """Stop it as an operator would (SIGTERM); returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def kill(self) -> None:
        """Stop it as a power cut would."""
        self.process.kill()
        self.process.wait()


def _write_properties(path: Path, values: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


def _serves_requests(address: tuple[str, int], *, secured: bool) -> bool:
    """Whether a Metadata request (version 1, no topics) is answered with a broker; any answer, where clients log in."""
    body = struct.pack(">hhihi", 3, 1, 7, -1, 0) if not secured else struct.pack(">hhih", 18, 0, 7, -1)
    try:
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.recv(65536)
    except OSError:
        return False
    return len(answer) >= 12 and (secured or struct.unpack_from(">i", answer, 8)[0] >= 1)


def _wait_until_ready(node: Node, *, secured: bool) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _serves_requests(node.address, secured=secured):
        if node.process.poll() is not None:
            raise NodeError(f"{node.kind} ended with {node.process.returncode}:\n{_tail(node.log)}")
        if time.monotonic() > deadline:
            node.kill()
            raise NodeError(f"{node.kind} does not answer after {START_TIMEOUT_S:.0f} s:\n{_tail(node.log)}")
        time.sleep(0.1)


def start_apache(java: Java, folder: Path, overrides: Mapping[str, str] | None = None) -> Node:
    """A real Apache Kafka in combined mode, its data folder formatted fresh unless it is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    port, controller_port = free_ports(2)
    data_dir = folder / "data"
    properties = folder / "server.properties"
    values = {
        "node.id": str(NODE_ID),
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(data_dir),
        **SINGLE_NODE,
        **(overrides or {}),
    }
    _write_properties(properties, values)
    log = folder / "node.log"
    if not (data_dir / "meta.properties").exists():
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties), "--standalone"]
        java.run("kafka.tools.StorageTool", arguments).must_succeed()
    command = java.command("kafka.Kafka", [str(properties)], heap="512m", log_level="warn")
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    node = Node(
        kind=APACHE,
        bootstrap=f"127.0.0.1:{port}",
        controller=f"127.0.0.1:{controller_port}",
        data_dir=data_dir,
        log=log,
        process=process,
        properties=properties,
    )
    _wait_until_ready(node, secured="SASL" in values.get("listener.security.protocol.map", ""))
    return node


def start_kavka(folder: Path, overrides: Mapping[str, str] | None = None) -> Node:
    """A `kavka serve` process on a free port."""
    folder.mkdir(parents=True, exist_ok=True)
    data_dir, log, ready = folder / "data", folder / "node.log", folder / "ready.json"
    properties = folder / "server.properties"
    _write_properties(properties, {"node.id": str(NODE_ID), **SINGLE_NODE, **(overrides or {})})
    ready.unlink(missing_ok=True)
    dirs = (overrides or {}).get("log.dirs", str(data_dir))
    command = [str(Path(sys.executable).with_name("kavka")), "serve", "--data-dir", dirs]
    command += ["--listen", "127.0.0.1:0", "--console", "off", "--config", str(properties), "--ready-file", str(ready)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready.exists():
        if process.poll() is not None:
            raise NodeError(f"kavka serve ended with {process.returncode}:\n{_tail(log)}")
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise NodeError(f"kavka serve wrote no ready file in {START_TIMEOUT_S:.0f} s:\n{_tail(log)}")
        time.sleep(0.02)
    said = json.loads(ready.read_text())
    bootstrap = said["bootstrap"]
    return Node(
        kind=KAVKA,
        bootstrap=bootstrap if isinstance(bootstrap, str) else bootstrap[0],
        controller=said.get("controller"),
        data_dir=data_dir,
        log=log,
        process=process,
        properties=properties,
    )


def start(kind: str, java: Java, folder: Path, overrides: Mapping[str, str] | None = None) -> Node:
    """A node of the kind asked for."""
    if kind == APACHE:
        return start_apache(java, folder, overrides)
    return start_kavka(folder, overrides)


@contextlib.contextmanager
def running(kind: str, java: Java, folder: Path, overrides: Mapping[str, str] | None = None) -> Iterator[Node]:
    """A node for the length of a with block."""
    node = start(kind, java, folder, overrides)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.stop()


def target() -> str:
    """Which node the tool and client cases run against: Kavka, unless somebody asks for the oracle itself."""
    return os.environ.get("KAVKA_COMPAT_TARGET", KAVKA)
