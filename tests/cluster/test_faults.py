"""Three nodes under load while one after another is killed or held still: nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest

from cluster.load import Load
from cluster.looking import admin, await_healthy, create, leader_of, quorum
from kavka.testing import Cluster
from scale import rounds

SESSION_SECONDS = 9.0
ROUNDS = rounds(30, 2)
PARTITIONS = 6
ROLES = ("leader", "follower", "controller")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, timeout=60, config={"min.insync.replicas": "2"}) as cluster:
        yield cluster


def victim(cluster: Cluster, role: str, topic: str) -> int:
    """A node that has a role now: it leads partition 0, or only follows it, or leads the quorum."""
    client = admin(cluster.bootstrap)
    controller, leader = quorum(cluster.bootstrap).leader_id, leader_of(client, topic)
    if role == "controller":
        return controller
    if role == "leader":
        return leader
    return next(node for node in cluster.nodes if node not in (controller, leader))


@pytest.mark.apart
@pytest.mark.timeout(3600 if rounds(1, 0) else 300)
@pytest.mark.parametrize("role", ROLES)
def test_nothing_acknowledged_is_lost_when_a_node_is_killed(cluster: Cluster, role: str) -> None:
    client = admin(cluster.bootstrap)
    create(client, "orders", PARTITIONS)
    await_healthy(client, "orders", 3)
    gaps = []
    with Load(cluster.bootstrap, "orders", PARTITIONS) as load:
        load.await_acks(20)
        for _ in range(ROUNDS):
            node = victim(cluster, role, "orders")
            since = time.monotonic()
            cluster.kill(node)
            load.await_acks(20)
            gaps.append(load.longest_gap(since))
            cluster.start(node)
            await_healthy(client, "orders", 3)
        load.finish()
        read = load.check()
    say(f"kill {role}: {read} records, {load.count} acknowledged, longest time without writes", gaps)
    assert max(gaps) < 2.0 * slack()


@pytest.mark.timeout(3600 if rounds(1, 0) else 300)
@pytest.mark.parametrize("role", ROLES)
def test_nothing_acknowledged_is_lost_when_a_node_is_held_still(
    cluster: Cluster, role: str, rng: random.Random
) -> None:
    client = admin(cluster.bootstrap)
    create(client, "orders", PARTITIONS)
    await_healthy(client, "orders", 3)
    gaps = []
    with Load(cluster.bootstrap, "orders", PARTITIONS) as load:
        load.await_acks(20)
        for turn in range(ROUNDS):
            node = victim(cluster, role, "orders")
            since = time.monotonic()
            cluster.pause(node)
            time.sleep(SESSION_SECONDS + 2 if turn % 2 else rng.uniform(0.5, 5.0))  # the fault itself takes this long
            cluster.resume(node)
            load.await_acks(20)
            gaps.append(load.longest_gap(since))
            await_healthy(client, "orders", 3)
        load.finish()
        read = load.check()
    say(f"pause {role}: {read} records, {load.count} acknowledged, longest time without writes", gaps)
    assert max(gaps) < 2 * SESSION_SECONDS  # it is fenced after one


def slack() -> float:
    """How much longer things may take on a machine that does other work at the same time."""
    return max(1.0, min(4.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def say(what: str, seconds: list[float]) -> None:
    """Print numbers for whoever runs the test with -s or reads a failure."""
    sys.stdout.write(f"{what}: {', '.join(f'{one:.2f}' for one in seconds)} s\n")
