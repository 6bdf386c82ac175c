"""From one node to three by auto-join, everything moved, and the first node gone, all of it under load."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cluster.load import Load
from cluster.looking import admin, await_healthy, create, quorum
from kavka.client import blocking
from kavka.model.types import TopicPartition
from kavka.testing import Cluster

PARTITIONS = 4


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, quorum=True, timeout=60) as cluster:
        yield cluster


def await_voters(bootstrap: str, voters: set[int], timeout: float = 60.0) -> None:
    """Wait until just these vote."""
    deadline = time.monotonic() + timeout
    while (now := {replica.id for replica in quorum(bootstrap).voters}) != voters:
        assert time.monotonic() < deadline, f"the voters are {now}, not {voters}"
        time.sleep(0.1)


def move(client: blocking.Client, topic: str, nodes: list[int]) -> None:
    """Put every partition of a topic on all these nodes, and wait for it."""
    where = {TopicPartition(topic, index): nodes[index % 2 :] + nodes[: index % 2] for index in range(PARTITIONS)}
    client.admin.reassign(where)
    deadline = time.monotonic() + 60
    while client.admin.reassignments():
        assert time.monotonic() < deadline, f"{client.admin.reassignments()} are not moved"
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_a_cluster_grows_from_one_node_to_three_and_loses_the_first(cluster: Cluster) -> None:
    client = admin(cluster.bootstrap)
    create(client, "orders", PARTITIONS, replicas=1)
    with Load(cluster.bootstrap, "orders", PARTITIONS) as load:
        load.await_acks(20)
        assert [cluster.add(), cluster.add()] == [2, 3]
        await_voters(cluster.bootstrap, {1, 2, 3})
        with blocking.Client(cluster.bootstrap, timeout_ms=20_000) as mover:
            move(mover, "orders", [1, 2, 3])
            await_healthy(client, "orders", 3)
            load.await_acks(20)
            move(mover, "orders", [2, 3])
            mover.admin.elect_leaders()
            first = next(one for one in quorum(cluster.bootstrap).voters if one.id == 1)
            mover.admin.remove_voter(1, first.directory_id)
            await_voters(cluster.bootstrap, {2, 3})
        load.await_acks(20)
        assert cluster.stop(1, timeout=60) == 0
        cluster.remove(1)
        with blocking.Client(cluster.bootstrap, timeout_ms=20_000) as mover:
            mover.admin.unregister_broker(1)
            load.await_acks(20)
            described = mover.admin.describe_cluster()
            assert [node.id for node in described.nodes] == [2, 3]
        load.finish()
        assert load.check(cluster.bootstrap) == load.count
    rest = admin(cluster.bootstrap)
    await_healthy(rest, "orders", 2)
