"""What an operator of three nodes sees and does: topics known everywhere, replicas moved, and nodes missing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from crash.raw import Raw
from kavka.client import blocking
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from kavka.testing import Cluster


def describe(bootstrap: str, *options: str) -> str:
    """What the command prints; it must succeed."""
    command = [sys.executable, "-m", "kavka", "cluster", "describe", "--bootstrap", bootstrap, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def doctor(bootstrap: str) -> list[dict[str, Any]]:
    """What `kavka doctor` finds; it must find a problem."""
    command = [sys.executable, "-m", "kavka", "doctor", "--bootstrap", bootstrap, "--timeout", "2", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    return [finding for finding in json.loads(done.stdout) if finding["level"] == "problem"]


def states(described: dict[str, Any]) -> dict[int, str]:
    """The state of each node."""
    return {node["node"]: node["state"] for node in described["nodes"]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, timeout=60) as cluster:
        yield cluster


def test_a_topic_that_was_created_at_one_node_is_known_to_all(cluster: Cluster) -> None:
    asked, *others = (Raw(address) for address in cluster.bootstrap.split(","))
    for number in range(20):
        name = f"orders-{number}"
        wanted = CreatableTopic(name=name, num_partitions=3, replication_factor=3, assignments=[], configs=[])
        (created,) = asked.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5).topics
        assert created.error_code == 0
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        found = [topic.error_code for other in others for topic in other.call(request, 12).topics]
        assert found == [0, 0]
    for raw in (asked, *others):
        raw.close()


def reassign(cluster: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kavka", "topics", "reassign", "moved", "--bootstrap", cluster.bootstrap, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_reassignment_is_shown_done_whole_or_not_at_all(cluster: Cluster) -> None:
    with blocking.Client(cluster.bootstrap) as client:

        def replicas() -> list[set[int]]:
            return [set(row.replicas) for row in client.admin.describe_topic("moved").partitions]

        client.admin.create_topic("moved", partitions=3, replication_factor=2)
        before = replicas()
        refused = reassign(cluster, "--to", "1,99", "-r", "1", "--execute")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "99 is no broker in service; these are: 1, 2, 3" in refused.stderr
        shown = reassign(cluster, "--to", "1,2", "-r", "1")
        assert (shown.returncode, replicas()) == (0, before)
        done = reassign(cluster, "--to", "1,2,3", "-r", "3", "--execute")
        assert (done.returncode, replicas()) == (0, [{1, 2, 3}] * 3)


@pytest.mark.timeout(120)
def test_a_dead_broker_is_fenced_and_without_a_quorum_the_rest_is_still_shown(cluster: Cluster) -> None:
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
    wrong = doctor(address)
    assert {finding["area"] for finding in wrong} == {"nodes", "quorum", "partitions"}
    assert [text for text in ("cannot be reached", "is fenced", "led by a node") if text not in str(wrong)] == []
    cluster.start(2)
