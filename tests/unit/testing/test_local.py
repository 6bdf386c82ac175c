"""A local cluster's files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kavka.broker.config import load_config
from kavka.model.types import EVERY_ADDRESS
from kavka.quorum.format import check_dirs
from kavka.storage.disk import RealDisk
from kavka.testing.local import add_node, free_ports, lay_out, read_layout


def dirs(node):
    found = check_dirs(RealDisk(), [str(node.data_dir)], str(node.data_dir), node_id=node.id)
    assert found is not None
    return found


def test_the_first_three_nodes_are_controllers_and_all_share_a_cluster(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, 4, {"num.partitions": "7"})
    assert [node.id for node in nodes] == [1, 2, 3, 4]
    assert [node.controller is not None for node in nodes] == [True, True, True, False]
    assert len({dirs(node).cluster_id for node in nodes}) == 1
    for node in nodes:
        config = load_config(str(node.config), data_dir=str(node.data_dir))
        assert str(tmp_path) not in node.config.read_text()
        assert not config.standalone
        assert config.roles == ({"broker", "controller"} if node.controller else {"broker"})
        assert f"{config.listeners[0].host}:{config.listeners[0].port}" == node.listen
        assert "num.partitions=7" in node.config.read_text()
        assert (node.data_dir / "__cluster_metadata-0").exists() == (node.controller is not None)


def test_what_is_there_is_used_again_and_only_brokers_are_added(tmp_path: Path) -> None:
    before = lay_out(tmp_path, 2, {})
    assert lay_out(tmp_path, 2, {}) == before == read_layout(tmp_path)
    grown = lay_out(tmp_path, 3, {})
    assert grown[:2] == before
    assert grown[2].controller is None
    assert dirs(grown[2]).cluster_id == dirs(before[0]).cluster_id


def test_a_first_port_gives_all_of_them(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, 2, {}, host="localhost", first_port=19092)
    assert [(node.listen, node.controller) for node in nodes] == [
        ("localhost:19092", "localhost:19094"),
        ("localhost:19093", "localhost:19095"),
    ]


def test_a_broker_that_is_added_takes_nobodys_port(tmp_path: Path) -> None:
    lay_out(tmp_path, 1, {}, first_port=19092)
    *_, added = lay_out(tmp_path, 2, {}, first_port=19092)
    assert int(added.listen.rpartition(":")[2]) > 19093  # which is the controller's


def test_controllers_of_nodes_that_listen_everywhere_are_not_everywhere(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, 2, {}, host="[::]", first_port=19092)
    assert (nodes[0].listen, nodes[0].controller) == ("[::]:19092", "127.0.0.1:19094")
    assert load_config(str(nodes[0].config)).advertised[0].host not in EVERY_ADDRESS


def test_a_controller_can_be_added_that_is_no_voter_yet(tmp_path: Path) -> None:
    first = lay_out(tmp_path, 1, {})[0]
    node = add_node(tmp_path, {"controller.quorum.auto.join.enable": "true"})
    config = load_config(str(node.config))
    assert config.roles == {"broker", "controller"}
    assert first.controller is not None
    assert first.controller in node.config.read_text()
    assert not (node.data_dir / "__cluster_metadata-0").exists()


def test_free_ports_are_free_and_distinct() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(20_000 <= port < 32_000 for port in ports)
    assert not set(ports) & set(free_ports(5))


def test_processes_side_by_side_are_given_different_ports() -> None:
    program = "from kavka.testing.local import free_ports; print(*free_ports(200), flush=True); input()"
    command = [sys.executable, "-c", program]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    given = []
    for process in started:
        assert process.stdout is not None
        given += process.stdout.readline().split()
    for process in started:
        process.communicate("\n")
    assert len(given) == len(set(given)) == 800
