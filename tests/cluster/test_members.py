"""`kavka cluster add-voter`, `remove-voter` and `unregister`, and what `kavka topics` shows of a node that is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from cluster.looking import admin, create, quorum
from kavka.testing import Cluster
from kavka.testing.local import read_layout


def kavka(cluster: Cluster, *arguments: str) -> Any:
    command = [sys.executable, "-m", "kavka", *arguments, "--output", "json"]
    environment = {**os.environ, "KAVKA_BOOTSTRAP": cluster.bootstrap}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(200)
def test_a_node_comes_votes_and_goes_by_commands() -> None:
    with Cluster(nodes=1, quorum=True, timeout=60) as cluster:
        client = admin(cluster.bootstrap)
        assert cluster.add(config={"controller.quorum.auto.join.enable": "false"}) == 2
        create(client, "orders", 2, replicas=2)
        address = next(node.controller for node in read_layout(cluster.data_dir) if node.id == 2)
        told = kavka(cluster, "cluster", "add-voter", "2", "--endpoint", f"CONTROLLER://{address}")
        assert told == {"node": 2, "voter": True}
        assert {one.id for one in quorum(cluster.bootstrap).voters} == {1, 2}
        assert kavka(cluster, "cluster", "remove-voter", "2") == {"node": 2, "voter": False}
        assert {one.id for one in quorum(cluster.bootstrap).voters} == {1}
        assert kavka(cluster, "topics", "describe", "--under-replicated") == []
        moved = kavka(cluster, "topics", "reassign", "orders", "--to", "1", "-r", "1", "--execute")
        assert [row["to"] for row in moved] == [[1], [1]]
        create(client, "left", 1, replicas=2)
        cluster.stop(2)
        (lacking,) = kavka(cluster, "topics", "describe", "orders", "left", "--under-replicated")
        assert (lacking["topic"], [row["isr"] for row in lacking["partitions"]]) == ("left", [[1]])
        assert kavka(cluster, "cluster", "unregister", "2") == {"node": 2, "registered": False}
