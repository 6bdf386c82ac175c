"""A partition that has lost all who were in sync gets a leader again, where its topic asks for that (KIP-966)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException

from cluster.looking import admin, await_healthy, partitions_of
from crash.raw import Raw
from kavka.client import Election, TopicPartition
from kavka.client.blocking import Client
from kavka.testing import Cluster

PATIENCE_S = 120.0


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if holds():
                return
        except KafkaException:
            pass  # nobody answers just now
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)


def address(client: Client, node: int) -> str:
    """Where a node is."""
    found = next(one for one in client.admin.describe_cluster().nodes if one.id == node)
    return f"{found.host}:{found.port}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", ["Aggressive", "None"])
def test_what_is_left_leads_by_itself_or_when_it_is_asked_for(strategy: str) -> None:
    with Cluster(nodes=3, timeout=60, config={"replica.lag.time.max.ms": "1500"}) as cluster:
        look = admin(cluster.bootstrap)
        with Client(cluster.bootstrap) as client:
            settings = {"unclean.recovery.strategy": strategy}
            client.admin.create_topic("orders", assignments={0: [1, 2]}, configs=settings)
            await_healthy(look, "orders", 3)
            where = address(client, 2)
            raw = Raw(address(client, 1))
            assert raw.produce("orders", b"on both")[0] == 0
            cluster.pause(2)
            assert raw.produce("orders", b"on its way")[0] == 0  # once the other is out of sync
            assert raw.produce("orders", b"on one")[0] == 0
            raw.close()
            eventually(lambda: partitions_of(look, "orders")[0].isrs == [1], "the other to be out of sync")
            cluster.kill(1)
            cluster.resume(2)
            if strategy == "None":
                eventually(lambda: partitions_of(look, "orders")[0].leader == -1, "the only one in sync to be gone")
        with Client(cluster.bootstrap, timeout_ms=60_000) as client:
            if strategy == "None":
                client.admin.elect_leaders([TopicPartition("orders", 0)], Election.UNCLEAN)
            eventually(lambda: partitions_of(look, "orders")[0].leader == 2, "the one that is left to lead")
        raw = Raw(where)
        code, records = raw.fetch("orders", 0)
        assert code == 0
        assert b"on both" in records
        assert b"on one" not in records
        raw.close()
        cluster.start(1)
        await_healthy(look, "orders", 3)
