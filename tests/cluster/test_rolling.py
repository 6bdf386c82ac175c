"""A rolling restart with controlled shutdown under load: no client sees an error, and groups go on."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError

from cluster.load import Load
from cluster.looking import admin, await_healthy, create
from kavka.testing import Cluster
from scale import rounds

PARTITIONS = 6


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, timeout=60, config={"min.insync.replicas": "2"}) as cluster:
        yield cluster


class Group:
    """A member of a group that reads and commits all the time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.errors: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 10_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.subscribe([topic])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error: KafkaError | None = message.error()
            if error is None:
                self.seen.add((message.partition(), message.offset()))
            elif error.fatal():
                self.errors.append(str(error))


@pytest.mark.timeout(600)
def test_a_rolling_restart_is_not_noticed_by_clients(cluster: Cluster) -> None:
    client = admin(cluster.bootstrap)
    create(client, "orders", PARTITIONS)
    await_healthy(client, "orders", 3)
    restarts, gaps = [], []
    with Load(cluster.bootstrap, "orders", PARTITIONS) as load:
        readers = Group(cluster.bootstrap, "orders")
        load.await_acks(20)
        for _ in range(rounds(3, 1)):
            for node in cluster.nodes:
                since = time.monotonic()
                assert cluster.stop(node, timeout=60) == 0
                stopped = time.monotonic() - since
                cluster.start(node)
                await_healthy(client, "orders", 3)
                load.await_acks(10)
                restarts.append(stopped)
                gaps.append(load.longest_gap(since))
        load.finish()
        read = load.check()
        deadline = time.monotonic() + 60
        while len(readers.seen) < read:
            assert time.monotonic() < deadline, f"the group has read {len(readers.seen)} of {read}"
            time.sleep(0.05)
        readers.close()
    words = ", ".join(f"{one:.2f}" for one in restarts)
    sys.stdout.write(f"stops took {words} s; longest time without writes {max(gaps):.2f} s; {read} records\n")
    assert not load.failed
    assert not readers.errors
    for node in cluster.nodes:
        assert "controlled shutdown timed out" not in cluster.node(node).log
