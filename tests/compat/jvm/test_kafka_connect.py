"""Kafka Connect 4.3 on Kavka: a file is copied into a topic exactly once and out again, workers and nodes killed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from jvm.streams_app import App, StreamsJava, missing_streams, until

from kavka.testing import Cluster
from kavka.testing.local import free_ports
from scale import rounds

LINES = rounds(full=20_000, ci=600)
KILLS = rounds(full=6, ci=1)
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


def committed(bootstrap: str, topic: str) -> list[Message]:
    """What is committed in a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-copied",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, 60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found, ends = [], 0
    while ends < len(partitions) and (message := consumer.poll(60)) is not None:
        error = message.error()
        if error is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ends += 1
    consumer.close()
    return found


def copied(bootstrap: str) -> list[str]:
    """What is committed in the topic that the file is copied to."""
    return [(message.value() or b"").decode() for message in committed(bootstrap, "copied")]


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
        part = LINES // (1 + 2 * KILLS)
        write(part)
        until(lambda: first.has_running("in") and first.has_running("out"), "both run")
        until(lambda: copied(cluster.bootstrap) == written, "the first part is copied")

        workers = [first, second]
        for kill in range(KILLS):
            place = workers[-1].place_of("in") or ""
            victim = next((worker for worker in workers if str(worker.port) in place), workers[0])
            write(part)
            victim.app.kill()
            workers.remove(victim)
            node = cluster.nodes[kill % 3]
            cluster.kill(node)
            write(part)
            workers.append(Worker(java, cluster.bootstrap, tmp_path))
            until(lambda: all(worker.has_running("in") for worker in workers), "it runs again")
            until(lambda: all(worker.has_running("out") for worker in workers), "both run again")
            cluster.start(node)
            until(lambda: len(copied(cluster.bootstrap)) >= len(written), "the rest is copied")
            assert copied(cluster.bootstrap) == written  # once each, in order
        until(lambda: set(sink.read_text().splitlines()) == set(written), "all of it has come out")
        offsets = workers[0].ask("GET", "/connectors/in/offsets")
        assert offsets["offsets"][0]["offset"]["position"] == source.stat().st_size
        check_topics(cluster.bootstrap)
        check_configs(cluster.bootstrap, connectors)
        check_offsets(cluster.bootstrap, source)
        until(lambda: places_of_sink(workers[0]) == ends_of(cluster.bootstrap), "the sink has committed all of it")
        until(lambda: places_in_status(cluster.bootstrap) == places_by_rest(workers[0]), "who runs what is in a topic")
        for worker in workers:
            assert worker.app.process.poll() is None


def places_of_sink(worker: Worker) -> dict[int, int]:
    """How far the sink says that it has come, by partition."""
    found = worker.ask("GET", "/connectors/out/offsets")
    return {
        row["partition"]["kafka_partition"]: row["offset"]["kafka_offset"]
        for row in (found or {"offsets": []})["offsets"]
    }


def ends_of(bootstrap: str) -> dict[int, int]:
    """Behind the last line of each partition."""
    return {message.partition() or 0: (message.offset() or 0) + 1 for message in committed(bootstrap, "copied")}


def check_topics(bootstrap: str) -> None:
    """The three topics are as Connect asks for them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for topic, partitions in {"connect-configs": 1, "connect-offsets": 5, "connect-status": 5}.items():
        found = admin.list_topics(topic, timeout=60).topics[topic].partitions
        assert [len(partition.replicas) for partition in found.values()] == [3] * partitions, topic
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        assert admin.describe_configs([resource])[resource].result(60)["cleanup.policy"].value == "compact"


def check_configs(bootstrap: str, connectors: dict[str, dict[str, str]]) -> None:
    """The configurations are there, each with the task that was made of it and the commit that makes that count."""
    found = last_values(bootstrap, "connect-configs")
    for name, config in connectors.items():
        stored = found[f"connector-{name}"]["properties"]
        assert stored == {"name": name, **config}
        task = found[f"task-{name}-0"]["properties"]
        assert task["file"] == config["file"]
        assert found[f"commit-{name}"] == {"tasks": 1}
    assert found["tasks-fencing-in"] == {"task-count": 1}, "the source is exactly-once"


def check_offsets(bootstrap: str, source: Path) -> None:
    """The source's offset is the whole file's; none of a transaction that was aborted counts."""
    found = last_values(bootstrap, "connect-offsets")
    assert found == {
        json.dumps(["in", {"filename": str(source)}], separators=(",", ":")): {"position": source.stat().st_size}
    }


Places = dict[str, tuple[str, str]]
"""States and workers of connectors and tasks."""


def places_in_status(bootstrap: str) -> Places:
    found = last_values(bootstrap, "connect-status")
    return {
        key.removeprefix("status-"): (value["state"], value["worker_id"])
        for key, value in found.items()
        if key.startswith(("status-connector-", "status-task-"))
    }


def places_by_rest(worker: Worker) -> Places:
    found: Places = {}
    for name in ("in", "out"):
        status = worker.ask("GET", f"/connectors/{name}/status")
        found[f"connector-{name}"] = (status["connector"]["state"], status["connector"]["worker_id"])
        found |= {f"task-{name}-{task['id']}": (task["state"], task["worker_id"]) for task in status["tasks"]}
    return found


def last_values(bootstrap: str, topic: str) -> dict[str, Any]:
    """What a compacted topic of Connect says, by key; what was deleted is not there."""
    found: dict[str, Any] = {}
    for message in committed(bootstrap, topic):
        key, value = (message.key() or b"").decode(), message.value()
        found.pop(key, None)
        if value is not None:
            found[key] = json.loads(value)
    return found
