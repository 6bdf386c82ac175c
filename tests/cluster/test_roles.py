"""Nodes by their roles, from configuration files, format and serve as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.looking import quorum
from kavka.client import blocking
from kavka.testing.local import free_ports
from kavka.testing.process import NodeError, NodeProcess

CLUSTER = "3Db5QLSqSZieL3rJBUUegA"
KAVKA = [sys.executable, "-m", "kavka"]


class Nodes:
    """A controller and two brokers, each in a directory of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self.processes: dict[int, NodeProcess] = {}

    def configure(self, node: int, **changes: str) -> Path:
        """Write a node's server.properties."""
        home = self.root / str(node)
        home.mkdir(exist_ok=True)
        name = "CONTROLLER" if node == 1 else "PLAINTEXT"
        keys = {
            "process.roles": "controller" if node == 1 else "broker",
            "node.id": str(node),
            "listeners": f"{name}://127.0.0.1:{self.ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.ports[1]}",
            "log.dirs": str(home / "data"),
            **{key.replace("_", "."): value for key, value in changes.items()},
        }
        path = home / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return path

    def format(self, node: int, *options: str) -> str:
        """Run `kavka format` for a node; what it says."""
        command = [*KAVKA, "format", "--config", str(self.root / str(node) / "server.properties"), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def serve(self, node: int) -> NodeProcess:
        """Start a node."""
        process = self.processes[node] = NodeProcess(self.root / f"{node}.run", os.environ, 30)
        config = str(self.root / str(node) / "server.properties")
        process.spawn([*KAVKA, "serve", "--config", config, "--ready-file", str(process.ready_file)])
        return process


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    yield nodes
    for process in nodes.processes.values():
        process.kill()


def test_a_controller_alone_and_two_brokers_form_a_cluster(nodes: Nodes) -> None:
    for node in (1, 2, 3):
        nodes.configure(node)
        options = ["--standalone"] if node == 1 else []
        assert f"node {node} of cluster {CLUSTER}" in nodes.format(node, "--cluster-id", CLUSTER, *options)
    controller = nodes.serve(1)
    controller.await_ready()
    assert controller.ready["bootstrap"] is None
    assert controller.ready["controller"] == f"127.0.0.1:{nodes.ports[1]}"
    for node in (2, 3):
        nodes.serve(node)
    for node in (2, 3):
        nodes.processes[node].await_ready()
        assert nodes.processes[node].ready["controller"] is None
    bootstrap = nodes.processes[2].ready["bootstrap"]
    with blocking.Client(bootstrap) as client, client.producer() as producer:
        client.admin.create_topic("orders", replication_factor=2)
        producer.send("orders", b"kept").result()
    found = quorum(bootstrap)
    assert ([one.id for one in found.voters], {one.id for one in found.observers}) == ([1], {2, 3})
    for node in (3, 2, 1):
        nodes.processes[node].ask_to_stop()
        assert nodes.processes[node].await_end(30) == 0
    assert json.loads(json.dumps(controller.ready))["cluster_id"] == CLUSTER


def test_a_node_of_a_cluster_is_not_formatted_by_itself(nodes: Nodes) -> None:
    nodes.configure(1)
    with pytest.raises(NodeError, match="run `kavka format`"):
        nodes.serve(1).await_ready()


def test_a_foreign_node_is_not_let_in(nodes: Nodes) -> None:
    for node in (1, 2):
        nodes.configure(node, initial_broker_registration_timeout_ms="3000")
    nodes.format(1, "--cluster-id", CLUSTER, "--standalone")
    nodes.format(2, "--cluster-id", "AAAAQLSqSZieL3rJBUUegA")
    nodes.serve(1).await_ready()
    with pytest.raises(NodeError, match="kavka: this broker could not be registered") as raised:
        nodes.serve(2).await_ready()
    assert "Traceback" not in str(raised.value)


def test_two_nodes_of_one_id_do_not_serve_together(nodes: Nodes) -> None:
    for node in (1, 2):
        nodes.configure(node)
        nodes.format(node, "--cluster-id", CLUSTER, *(["--standalone"] if node == 1 else []))
    nodes.configure(3, node_id="2", initial_broker_registration_timeout_ms="3000")
    nodes.format(3, "--cluster-id", CLUSTER)
    nodes.serve(1).await_ready()
    nodes.serve(2).await_ready()
    with pytest.raises(NodeError, match="could not be registered"):
        nodes.serve(3).await_ready()
    assert nodes.processes[2].running
