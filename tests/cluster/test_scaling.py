"""Three nodes become five and three again, by `kavka cluster`, under load: nothing lost, nobody below min ISR."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from cluster.load import Load
from cluster.looking import admin, await_healthy, create, partitions_of
from kavka.testing import Cluster
from scale import rounds

PARTITIONS = rounds(60, 15)
MOST_UNEVEN = 0.1


def kavka(cluster: Cluster, *arguments: str) -> Any:
    """What a command says, as JSON, and on standard error."""
    command = [sys.executable, "-m", "kavka", "cluster", *arguments, "--bootstrap", cluster.bootstrap]
    done = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def holding(client: Any) -> dict[int, int]:
    """How many replicas of the topic each node has."""
    found: dict[int, int] = {}
    for row in partitions_of(client, "orders").values():
        assert len(row.isrs) >= 2, f"partition {row.id} has only {row.isrs} in sync"
        for replica in row.replicas:
            found[replica] = found.get(replica, 0) + 1
    return found


@pytest.mark.apart
@pytest.mark.timeout(900 if rounds(1, 0) else 300)
def test_a_cluster_grows_and_shrinks_under_load() -> None:
    with Cluster(nodes=3, timeout=60, config={"min.insync.replicas": "2"}) as cluster:
        client = admin(cluster.bootstrap)
        create(client, "orders", PARTITIONS)
        await_healthy(client, "orders", 3)
        with Load(cluster.bootstrap, "orders", PARTITIONS) as load:
            load.await_acks(10)
            new = [cluster.add(roles="broker"), cluster.add(roles="broker")]
            plan, _ = kavka(cluster, "add", *map(str, new))
            assert plan["moves"]
            assert not plan["executed"]
            assert holding(client).keys() == {1, 2, 3}
            done, told = kavka(cluster, "add", *map(str, new), "--execute")
            assert done["unevenness"] <= MOST_UNEVEN
            assert "partitions in" in told
            counts = holding(client)
            assert counts.keys() == {1, 2, 3, *new}
            assert max(counts.values()) - min(counts.values()) <= 0.2 * 3 * PARTITIONS / 5 + 1
            load.await_acks(5)
            kavka(cluster, "decommission", *map(str, new), "--execute")
            assert holding(client).keys() == {1, 2, 3}
            load.await_acks(5)
            for node in new:
                cluster.stop(node)
            assert kavka(cluster, "remove", *map(str, new))[0] == {"removed": new}
            for node in new:
                cluster.remove(node)
            load.await_acks(5)
            load.finish()
            await_healthy(client, "orders", 3)
            sys.stdout.write(f"{PARTITIONS} partitions, {load.check(cluster.bootstrap)} records\n")
