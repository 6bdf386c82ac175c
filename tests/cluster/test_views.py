"""What DescribeQuorum, DescribeCluster and Metadata say while nodes come and go, through two clients' admins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from kafka.admin import KafkaAdminClient

from cluster.looking import admin, await_healthy, create, leader_of, partitions_of, quorum
from kavka.client import blocking
from kavka.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4, timeout=60) as cluster:
        client = admin(cluster.bootstrap)
        create(client, "orders", 4)
        await_healthy(client, "orders", 4)
        yield cluster


def until(holds: Callable[[], object], what: str, timeout: float = 30.0) -> None:
    """Wait for something that is about to be."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.05)


def test_the_quorum_has_three_voters_and_the_fourth_node_observes(cluster: Cluster) -> None:
    found = quorum(cluster.bootstrap)
    assert {one.id for one in found.voters} == {1, 2, 3}
    assert {one.id for one in found.observers} == {4}
    assert found.leader_id in (1, 2, 3)
    assert set(found.endpoints) == {1, 2, 3}
    assert all(one.log_end_offset >= found.high_watermark - 50 for one in found.voters)


def test_every_node_describes_the_same_cluster(cluster: Cluster) -> None:
    for address in cluster.bootstrap.split(","):
        asked = admin(address)
        described = asked.describe_cluster(request_timeout=10).result()
        assert sorted(node.id for node in described.nodes) == [1, 2, 3, 4]
        assert described.cluster_id == cluster.cluster_id
        assert described.controller.id in (1, 2, 3, 4)
        with blocking.Client(address) as client:
            assert {node.id for node in client.admin.describe_cluster().nodes} == {1, 2, 3, 4}


def test_kafka_python_sees_it_too(cluster: Cluster) -> None:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        described = client.describe_cluster()
        assert {broker["broker_id"] for broker in described["brokers"]} == {1, 2, 3, 4}
        assert described["cluster_id"] == cluster.cluster_id
    finally:
        client.close()


def test_a_dead_broker_is_fenced_and_its_replicas_are_offline(cluster: Cluster) -> None:
    client = admin(cluster.bootstrap)
    node = next(one for one in cluster.nodes if one not in (4, quorum(cluster.bootstrap).leader_id))
    cluster.kill(node)
    try:
        until(lambda: node not in client.list_topics(timeout=5).brokers, "the fencing of the broker")
        until(lambda: leader_of(client, "orders", 0) not in (node, -1), "another leader")
        rows = partitions_of(client, "orders").values()
        assert all(row.leader != node for row in rows)
        assert all(node not in row.isrs for row in rows)
        with blocking.Client(cluster.bootstrap) as other:
            partitions = other.admin.describe_topic("orders").partitions
            offline = {row.index: row.offline for row in partitions if node in row.replicas}
            assert offline
            assert all(gone == (node,) for gone in offline.values())
    finally:
        cluster.start(node)
    await_healthy(client, "orders", 4)


def test_admin_calls_work_at_every_node(cluster: Cluster) -> None:
    for number, address in enumerate(cluster.bootstrap.split(",")):
        with blocking.Client(address) as client:
            name = f"made-at-{number}"
            assert client.admin.create_topic(name, partitions=2, replication_factor=3).replication_factor == 3
            until(lambda: name in {one.name for one in client.admin.list_topics()}, "the new topic")  # noqa: B023
            client.admin.create_partitions(name, 3)
            client.admin.delete_topic(name)


def test_the_coordinator_of_a_group_is_the_same_wherever_one_asks(cluster: Cluster) -> None:
    from confluent_kafka import Consumer

    for address in cluster.bootstrap.split(","):
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        until(lambda: consumer.poll(0.1) is None and consumer.assignment(), "an assignment")  # noqa: B023
        consumer.close()
    client = admin(cluster.bootstrap)
    groups = client.describe_consumer_groups(["g"])
    assert groups["g"].result().coordinator.id in cluster.nodes
    topic = client.list_topics("__consumer_offsets", timeout=5).topics["__consumer_offsets"]
    assert all(len(row.replicas) == 3 for row in topic.partitions.values())
