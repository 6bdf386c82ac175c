"""`kavka cluster describe` while nodes are missing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from kavka.testing import Cluster


def describe(bootstrap: str, *options: str) -> str:
    """What the command prints; it must succeed."""
    command = [sys.executable, "-m", "kavka", "cluster", "describe", "--bootstrap", bootstrap, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def states(described: dict[str, Any]) -> dict[int, str]:
    """The state of each node."""
    return {node["node"]: node["state"] for node in described["nodes"]}


@pytest.mark.timeout(120)
def test_a_dead_broker_is_fenced_and_without_a_quorum_the_rest_is_still_shown() -> None:
    with Cluster(nodes=3, timeout=60) as cluster:
        address = cluster.bootstrap.split(",")[0]
        assert set(states(json.loads(describe(address, "-o", "json"))).values()) == {"unfenced"}
        cluster.kill(3)
        deadline = time.monotonic() + 30
        while states(known := json.loads(describe(address, "-o", "json")))[3] != "fenced":
            assert time.monotonic() < deadline, f"node 3 is not fenced: {known}"
        cluster.kill(2)
        while (found := json.loads(describe(address, "-o", "json", "--timeout", "3")))["quorum"] is not None:
            assert time.monotonic() < deadline, f"node 1 still leads alone: {found}"
        assert (set(states(found)), found["features"]) == ({1, 2, 3}, known["features"])
        assert found["quorum_error"]
        words = describe(address, "--timeout", "3")
        assert "metadata quorum: not available (" in words
        assert cluster.cluster_id in words
        cluster.start(2)
