"""Consumers in three racks read from replicas of their own racks, and from leaders when those are gone (KIP-392)."""

from __future__ import annotations

from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cluster.looking import admin, await_healthy
from kavka.client import blocking
from kavka.testing import Cluster

RACKS = ("east", "middle", "west")
CONFIG = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "kavka.metrics.listener": "127.0.0.1:0",
    "broker.session.timeout.ms": "3000",
}
RECORDS = 500
PATIENCE_S = 60.0
GIVEN = 'kavka_topic_out_bytes_total{topic="orders"} '


def given(cluster: Cluster, node: int) -> float:
    """How many bytes of the topic consumers have got from a node."""
    with urlopen(f"http://{cluster.node(node).ready['metrics']}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.removeprefix(GIVEN)) for line in lines if line.startswith(GIVEN))


def produce(cluster: Cluster) -> None:
    """Write so many more records to each partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        for partition in range(len(RACKS)):
            producer.produce("orders", b"%d" % number, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def consumer_in(cluster: Cluster, rack: str) -> Consumer:
    """A consumer of all partitions from their beginnings."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "client.rack": rack}
    made = Consumer({**settings, "reconnect.backoff.max.ms": 200, "topic.metadata.refresh.interval.ms": 500})
    made.assign([TopicPartition("orders", partition, 0) for partition in range(len(RACKS))])
    return made


def read(consumer: Consumer) -> dict[int, list[int]]:
    """The next records of each partition."""
    found: dict[int, list[int]] = {partition: [] for partition in range(len(RACKS))}
    while sum(map(len, found.values())) < RECORDS * len(RACKS):
        messages = consumer.consume(RECORDS, PATIENCE_S)
        assert messages, f"nothing more comes after { ({key: len(rows) for key, rows in found.items()}) }"
        for message in messages:
            value, partition = message.value(), message.partition()
            if message.error() is None and value is not None and partition is not None:
                found[partition].append(int(value))
    return found


@pytest.mark.timeout(300)
def test_a_consumer_reads_in_its_own_rack() -> None:
    everything = {partition: list(range(RECORDS)) for partition in range(len(RACKS))}
    with Cluster(quorum=True, config=CONFIG, timeout=60) as cluster:
        nodes = {rack: cluster.add(roles="broker", config={"broker.rack": rack}) for rack in RACKS}
        east, middle, west = nodes.values()
        with blocking.Client(cluster.bootstrap) as client:
            leads = {0: [east, middle, west], 1: [middle, west, east], 2: [west, east, middle]}
            client.admin.create_topic("orders", assignments=leads)
        await_healthy(admin(cluster.bootstrap), "orders", 4)
        produce(cluster)
        consumers = {}
        for rack, own in nodes.items():
            before = {node: given(cluster, node) for node in nodes.values()}
            consumers[rack] = consumer_in(cluster, rack)
            assert read(consumers[rack]) == everything
            got = {node: given(cluster, node) - before[node] for node in nodes.values()}
            assert [node for node, size in got.items() if size] == [own], f"{rack} has read from {got}"
        before = {node: given(cluster, node) for node in nodes.values()}
        stranger = consumer_in(cluster, "north")
        assert read(stranger) == everything
        assert all(given(cluster, node) > before[node] for node in nodes.values())  # from who leads each
        stranger.close()
        cluster.kill(west)
        produce(cluster)
        for consumer in consumers.values():
            assert read(consumer) == everything
            consumer.close()
