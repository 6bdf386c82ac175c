"""Kafka Connect 4.3 on Kavka: a file is copied into a topic exactly once and out again, workers and nodes killed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from jvm.streams_app import App, StreamsJava, missing_streams, until

from kavka.testing import Cluster
from kavka.testing.local import free_ports
from scale import rounds

LINES = rounds(full=20_000, ci=600)
SAFE = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
WORKER = {
    "group.id": "workers",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "offset.storage.partitions": "5",
    "status.storage.topic": "connect-status",
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "500",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "rebalance.timeout.ms": "10000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "plugin.discovery": "service_load",
}
FILES = "org.apache.kafka.connect.file."


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamsJava]:
    reason = missing_streams()
    if reason:
        pytest.skip(reason)
    java = StreamsJava(tmp_path_factory.mktemp("connect"))
    java.compile()
    yield java
    java.close()


class Worker:
    """A Connect worker, and its REST interface."""

    def __init__(self, java: StreamsJava, bootstrap: str, folder: Path) -> None:
        (self.port,) = free_ports(1)
        properties = folder / f"worker-{self.port}.properties"
        plugins = folder / "plugins"  # there are none but those of the class path
        plugins.mkdir(exist_ok=True)
        pairs = {
            **WORKER,
            "bootstrap.servers": bootstrap,
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.path": str(plugins),
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.app: App = java.start(main, [str(properties)], log_level="warn", heap="384m")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """An answer of the REST interface; None while it cannot say."""
        assert self.app.process.poll() is None, self.app.said[-5000:]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"{}")
        except (urllib.error.URLError, OSError):
            return None

    def has_running(self, connector: str) -> bool:
        """Whether a connector and its task run."""
        found = self.ask("GET", f"/connectors/{connector}/status")
        return (
            found is not None
            and found["connector"]["state"] == "RUNNING"
            and [task["state"] for task in found["tasks"]] == ["RUNNING"]
        )

    def place_of(self, connector: str) -> str | None:
        """The worker that has a connector's task."""
        found = self.ask("GET", f"/connectors/{connector}/status")
        return found["tasks"][0]["worker_id"] if found and found["tasks"] else None


def copied(bootstrap: str) -> list[str]:
    """What is committed in the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-copied",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("copied", 0, 0)])
    found = []
    while (message := consumer.poll(60)) is not None and not message.error():
        found.append((message.value() or b"").decode())
    consumer.close()
    return found


def test_a_file_is_copied_exactly_once_while_workers_and_nodes_are_killed(java: StreamsJava, tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.touch()
    written: list[str] = []

    def write(count: int) -> None:
        lines = [f"line {number}" for number in range(len(written), len(written) + count)]
        written.extend(lines)
        with source.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    with Cluster(nodes=3, config=SAFE, timeout=90) as cluster:
        first, second = (Worker(java, cluster.bootstrap, tmp_path) for _ in range(2))
        for worker in (first, second):
            until(lambda worker=worker: worker.ask("GET", "/connectors") is not None, "the worker answers")  # type: ignore[misc]
        connectors = {
            "in": {"connector.class": f"{FILES}FileStreamSourceConnector", "topic": "copied", "file": str(source)},
            "out": {"connector.class": f"{FILES}FileStreamSinkConnector", "topics": "copied", "file": str(sink)},
        }
        for name, config in connectors.items():
            until(
                lambda name=name, config=config: first.ask("PUT", f"/connectors/{name}/config", config) is not None,  # type: ignore[misc]
                f"the connector {name} is there",
            )
        write(LINES // 3)
        until(lambda: first.has_running("in") and first.has_running("out"), "both run")
        until(lambda: copied(cluster.bootstrap) == written, "the first part is copied")

        victim, other = (first, second) if str(first.port) in (first.place_of("in") or "") else (second, first)
        write(LINES // 3)
        victim.app.kill()
        cluster.kill(1)
        write(LINES - 2 * (LINES // 3))
        third = Worker(java, cluster.bootstrap, tmp_path)
        until(lambda: other.has_running("in") and other.has_running("out"), "both run again")
        cluster.start(1)
        until(lambda: len(copied(cluster.bootstrap)) >= len(written), "the rest is copied")
        assert copied(cluster.bootstrap) == written  # once each, in order
        until(lambda: set(sink.read_text().splitlines()) == set(written), "all of it has come out")
        until(lambda: third.has_running("in"), "the third worker knows of it")
        offsets = other.ask("GET", "/connectors/in/offsets")
        assert offsets["offsets"][0]["offset"]["position"] == source.stat().st_size
        for worker in (other, third):
            assert worker.app.process.poll() is None
