"""The audit log of three nodes that are killed while clients administrate: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kavka.testing import Cluster
from scale import rounds

OPERATIONS = rounds(10_000, 150)
KILLS = rounds(12, 2)
CLIENTS = 4
SECONDS = 300.0
CONFIG = {
    "kavka.audit.enable": "true",
    "kavka.audit.topic.enable": "true",
    "kavka.audit.segment.bytes": "65536",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}
TOPIC = "__kavka_audit"
FAILURES = ("TOPIC_ALREADY_EXISTS", "INVALID_PARTITIONS", "UNKNOWN_TOPIC_OR_PART")
"""What a client may be told of what it asked for twice, or too late: that is an answer as well."""


class Acknowledged(NamedTuple):
    """What a client was told to be done."""

    api: str
    resource: str
    outcome: str


class Client(threading.Thread):
    """Creates topics, changes and deletes them, one operation after the other, and notes what was acknowledged."""

    def __init__(self, bootstrap: str, number: int, operations: int) -> None:
        super().__init__()
        self.id = f"admin-{number}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": self.id, "log_level": 2})
        self.left = operations
        self.done: list[Acknowledged] = []

    def run(self) -> None:
        for number in range(10**9):
            name = f"{self.id}-t{number}"
            for operation in (self.create, self.configure, self.widen, self.configure, self.delete):
                if self.left <= 0:
                    return
                if operation(name):
                    self.left -= 1

    def create(self, name: str) -> bool:
        return self.note("CreateTopics", name, self.admin.create_topics([NewTopic(name, 1, 1)])[name])

    def configure(self, name: str) -> bool:
        entry = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        (future,) = self.admin.incremental_alter_configs([resource]).values()
        return self.note("IncrementalAlterConfigs", name, future)

    def widen(self, name: str) -> bool:
        return self.note("CreatePartitions", name, self.admin.create_partitions([NewPartitions(name, 2)])[name])

    def delete(self, name: str) -> bool:
        return self.note("DeleteTopics", name, self.admin.delete_topics([name])[name])

    def note(self, api: str, name: str, future: Any) -> bool:
        try:
            future.result(timeout=60)
        except KafkaException as error:
            told = error.args[0].name()
            if told not in FAILURES:
                return False  # a time-out, or a connection that was lost: nobody was told anything
            outcome = {"UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION"}.get(told, told)
        else:
            outcome = "NONE"
        self.done.append(Acknowledged(api, name, outcome))
        return True


def entries(cluster: Cluster) -> Iterator[tuple[int, dict[str, Any]]]:
    """What the files of the nodes have, by node and in order."""
    for node in cluster.nodes:
        for path in sorted((cluster.log_dirs(node)[0] / "kavka-audit").glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                yield node, json.loads(line)


def in_topic(cluster: Cluster, wanted: dict[str, int]) -> dict[str, list[int]]:
    """The numbers of the entries in the topic, by log, up to its end once each has as many as are wanted."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "audit",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[str, list[int]] = defaultdict(list)
    ends = time.monotonic() + SECONDS
    at_end = False
    while not at_end or any(len(found[log]) < count for log, count in wanted.items()):
        assert time.monotonic() < ends, ({log: len(each) for log, each in found.items()}, wanted)
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        if error is None:
            value = message.value()
            assert value is not None
            entry = json.loads(value)
            assert message.key() == entry["spool"].encode()
            found[entry["spool"]].append(entry["seq"])
    consumer.close()
    return dict(found)


def test_every_acknowledged_operation_is_in_the_log_in_order_and_once(rng: random.Random) -> None:
    with Cluster(nodes=3, config=CONFIG) as cluster:
        clients = [Client(cluster.bootstrap, number, OPERATIONS // CLIENTS) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for kill in range(1, KILLS + 1):
            due = OPERATIONS * kill // (KILLS + 1)
            while sum(len(client.done) for client in clients) < due:
                assert any(client.is_alive() for client in clients)
                time.sleep(0.01)
            node = rng.choice(cluster.nodes)
            cluster.kill(node)
            time.sleep(rng.random())
            cluster.start(node)
        for client in clients:
            client.join()
        acknowledged = {client.id: client.done for client in clients}
        assert sum(map(len, acknowledged.values())) >= OPERATIONS // CLIENTS * CLIENTS
        logs: dict[str, list[int]] = defaultdict(list)
        by_node: dict[tuple[int, str], list[Acknowledged]] = defaultdict(list)
        noted: dict[str, Counter[Acknowledged]] = defaultdict(Counter)
        for node, entry in entries(cluster):
            assert entry["node"] == node
            logs[entry["spool"]].append(entry["seq"])
            what = Acknowledged(entry["api"], entry["resource"], entry.get("outcome", ""))
            by_node[node, entry["client_id"]].append(what)
            noted[entry["client_id"]][what] += 1
        assert logs
        for numbers in logs.values():
            assert numbers == list(range(1, len(numbers) + 1))
        for client_id, done in acknowledged.items():
            check(client_id, done, noted[client_id])
            for node in cluster.nodes:
                assert in_order(done, by_node[node, client_id])
        acked, written = sum(map(len, acknowledged.values())), sum(map(len, logs.values()))
        sys.stdout.write(f"{acked} acknowledged, {written} entries on {len(logs)} nodes, {KILLS} kills\n")
        for log, numbers in in_topic(cluster, {log: len(numbers) for log, numbers in logs.items()}).items():
            odd = [(place, number) for place, number in enumerate(numbers, 1) if number != place]
            assert not odd, (log, len(logs[log]), len(numbers), odd[:20])


def check(client_id: str, done: list[Acknowledged], noted: Counter[Acknowledged]) -> None:
    """Everything that a client was told is there as often as it was told.

    A request whose answer was lost was made again: of that there may be more, but nothing is created or deleted twice.
    """
    for what, count in Counter(done).items():
        assert noted[what] >= count, (client_id, what, noted[what])
        if what.outcome == "NONE" and what.api != "IncrementalAlterConfigs":
            assert noted[what] == 1, (client_id, what)


def in_order(done: list[Acknowledged], noted: list[Acknowledged]) -> bool:
    """Whether a node has what it was asked for in the order in which it answered."""
    places = {what: place for place, what in reversed(list(enumerate(done)))}
    seen = [places[what] for what in noted if what in places and what.api != "IncrementalAlterConfigs"]
    return seen == sorted(seen)
