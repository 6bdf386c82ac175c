"""`kavka cluster add-voter`, `remove-voter` and `unregister`, and what `kavka topics` shows of a node that is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from cluster.looking import admin, create, quorum
from json_names import documented
from kavka.client import TopicPartition, blocking
from kavka.testing import Cluster
from kavka.testing.local import read_layout


def printed(cluster: Cluster, *arguments: str) -> str:
    command = [sys.executable, "-m", "kavka", *arguments, "--output", "json"]
    environment = {**os.environ, "KAVKA_BOOTSTRAP": cluster.bootstrap}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kavka(cluster: Cluster, *arguments: str) -> Any:
    return json.loads(printed(cluster, *arguments))


def elect(cluster: Cluster) -> None:
    """Have a partition led by a replica that has become the preferred one."""
    partition = TopicPartition("elected", 0)
    with blocking.Client(cluster.bootstrap) as client:
        client.admin.create_topic("elected", assignments={0: [1, 2]})
        client.admin.reassign({partition: [2, 1]})
    told = printed(cluster, "topics", "elect", "elected")
    assert json.loads(told) == [{"topic": "elected", "partition": 0, "outcome": "elected"}]
    documented("kavka topics elect elected", told)


@pytest.mark.timeout(200)
def test_a_node_comes_votes_and_goes_by_commands() -> None:
    with Cluster(nodes=1, quorum=True, timeout=60) as cluster:
        client = admin(cluster.bootstrap)
        assert cluster.add(config={"controller.quorum.auto.join.enable": "false"}) == 2
        create(client, "orders", 2, replicas=2)
        address = next(node.controller for node in read_layout(cluster.data_dir) if node.id == 2)
        told = printed(cluster, "cluster", "add-voter", "2", "--endpoint", f"CONTROLLER://{address}")
        assert json.loads(told) == {"node": 2, "voter": True}
        documented("kavka cluster add-voter 2 --endpoint CONTROLLER://HOST:PORT", told)
        assert {one.id for one in quorum(cluster.bootstrap).voters} == {1, 2}
        told = printed(cluster, "cluster", "remove-voter", "2")
        assert json.loads(told) == {"node": 2, "voter": False}
        documented("kavka cluster remove-voter 2", told)
        assert {one.id for one in quorum(cluster.bootstrap).voters} == {1}
        assert kavka(cluster, "topics", "describe", "--under-replicated") == []
        told = printed(cluster, "topics", "reassign", "orders", "--to", "1", "-r", "1", "--execute")
        assert [row["to"] for row in json.loads(told)] == [[1], [1]]
        documented("kavka topics reassign orders --to 1 --replication-factor 1 --execute", told)
        elect(cluster)
        create(client, "left", 1, replicas=2)
        cluster.stop(2)
        (lacking,) = kavka(cluster, "topics", "describe", "orders", "left", "--under-replicated")
        assert (lacking["topic"], [row["isr"] for row in lacking["partitions"]]) == ("left", [[1]])
        told = printed(cluster, "cluster", "unregister", "2")
        assert json.loads(told) == {"node": 2, "registered": False}
        documented("kavka cluster unregister 2", told)
