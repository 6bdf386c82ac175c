"""A node that stops in order, or is killed and comes back at once: what the others and it itself say about it."""

from __future__ import annotations

import pytest

from cluster.looking import admin, await_healthy, create
from kavka.testing import Cluster

LET_GO = "controlled shutdown complete"
REFUSED = "broker registration failed"


def said(cluster: Cluster, since: dict[int, int]) -> str:
    """What all nodes have printed since."""
    return "".join(cluster.node(node).log[since[node] :] for node in cluster.nodes)


def so_far(cluster: Cluster) -> dict[int, int]:
    """How much each node has printed."""
    return {node: len(cluster.node(node).log) for node in cluster.nodes}


@pytest.mark.timeout(120)
def test_no_follower_warns_of_one_that_stops_in_order_and_none_has_to_wait_for_its_last_life() -> None:
    with Cluster(nodes=3, timeout=60) as cluster:
        client = admin(cluster.bootstrap)
        create(client, "orders", 6)
        await_healthy(client, "orders", 3)
        for node in cluster.nodes:
            since = so_far(cluster)
            cluster.stop(node)
            assert LET_GO in said(cluster, since)
            assert not [line for line in said(cluster, since).splitlines() if "WARNING replica." in line]
            cluster.start(node)
            await_healthy(client, "orders", 3)
        for node in cluster.nodes:
            cluster.kill(node)
            cluster.start(node)
            await_healthy(client, "orders", 3)
        cluster.kill()
        cluster.start()
        assert REFUSED not in cluster.log


@pytest.mark.timeout(120)
def test_without_controlled_shutdown_a_broker_stops_at_once() -> None:
    with Cluster(nodes=2, timeout=60, config={"controlled.shutdown.enable": "false"}) as cluster:
        for node in cluster.nodes:
            since = so_far(cluster)
            assert cluster.stop(node) == 0
            assert LET_GO not in said(cluster, since)
            assert "controlled shutdown timed out" not in said(cluster, since)
            cluster.start(node)
