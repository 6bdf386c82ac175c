"""Three nodes become five and three again, by `kavka cluster`, under load: nothing lost, nobody below min ISR."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any, Self

import pytest
from confluent_kafka import KafkaException, Producer

from cluster.load import Load
from cluster.looking import admin, await_healthy, create, partitions_of
from json_names import documented
from kavka.testing import Cluster
from scale import rounds

PARTITIONS = rounds(60, 15)
MOST_UNEVEN = 0.1
MIN_ISR = 2
BULK, BULK_BYTES = 5, 200_000
THROTTLE = 500_000
CONFIG = {
    "min.insync.replicas": str(MIN_ISR),
    # so that the throttle is felt soon: little may be copied at once
    "replication.quota.window.num": "2",
    "replica.fetch.max.bytes": "300000",
    "replica.fetch.response.max.bytes": "300000",
}


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
        for replica in row.replicas:
            found[replica] = found.get(replica, 0) + 1
    return found


def preload(bootstrap: str) -> None:
    """Give each partition something to copy: numbers as the load writes them, and before its first."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.max.bytes": 1_000_000})
    for number in range(-BULK, 0):
        for partition in range(PARTITIONS):
            producer.produce("orders", b"%d" % number + b" " * BULK_BYTES, partition=partition)
        assert producer.flush(60.0) == 0


class InSync:
    """Looks all the time at how many replicas are in sync."""

    def __init__(self, bootstrap: str) -> None:
        self._client = admin(bootstrap)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._looks = 0
        self._few: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            try:
                rows = partitions_of(self._client, "orders").values()
            except KafkaException:
                continue  # the node that was asked is just being stopped
            self._looks += 1
            self._few += [f"partition {row.id}: {row.isrs}" for row in rows if len(row.isrs) < MIN_ISR]

    def never_too_few(self) -> None:
        """Whether all partitions could be written to at each look."""
        assert self._looks > 10
        assert not self._few, self._few[:5]


@pytest.mark.apart
@pytest.mark.timeout(900 if rounds(1, 0) else 300)
def test_a_cluster_grows_and_shrinks_under_load() -> None:
    with Cluster(nodes=3, timeout=60, config=CONFIG) as cluster:
        client = admin(cluster.bootstrap)
        create(client, "orders", PARTITIONS)
        await_healthy(client, "orders", 3)
        preload(cluster.bootstrap)
        with InSync(cluster.bootstrap) as watched, Load(cluster.bootstrap, "orders", PARTITIONS) as load:
            load.await_acks(10)
            new = [cluster.add(roles="broker"), cluster.add(roles="broker")]
            plan, _ = kavka(cluster, "add", *map(str, new))
            assert plan["moves"]
            assert not plan["executed"]
            assert holding(client).keys() == {1, 2, 3}
            done, told = kavka(cluster, "add", *map(str, new), "--execute", "--throttle", str(THROTTLE))
            documented("kavka cluster add 4 5 --execute", json.dumps(done))
            assert done["unevenness"] <= MOST_UNEVEN
            assert done["unevenness_after"] <= MOST_UNEVEN
            sys.stdout.write(told)
            assert "partitions in" in told
            assert "s left" in told
            counts = holding(client)
            assert counts.keys() == {1, 2, 3, *new}
            assert max(counts.values()) - min(counts.values()) <= 0.2 * 3 * PARTITIONS / 5 + 1
            load.await_acks(5)
            gone, _ = kavka(cluster, "decommission", *map(str, new), "--execute")
            documented("kavka cluster decommission 4 5 --execute", json.dumps(gone))
            assert holding(client).keys() == {1, 2, 3}
            load.await_acks(5)
            for node in new:
                cluster.stop(node)
            removed, _ = kavka(cluster, "remove", *map(str, new))
            assert removed == {"removed": new}
            documented("kavka cluster remove 4 5", json.dumps(removed))
            for node in new:
                cluster.remove(node)
            load.await_acks(5)
            load.finish()
            watched.never_too_few()
            await_healthy(client, "orders", 3)
            sys.stdout.write(f"{PARTITIONS} partitions, {load.check(cluster.bootstrap)} records\n")
