"""Hundreds of topics, created, listed, described, deleted; and a node that starts with all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing import Cluster

TOPICS = 300
PATIENCE_S = 60.0
NAMES = [f"topic-{number:03}" for number in range(TOPICS)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A node of its own: other tests have topics too."""
    with Cluster() as cluster:
        yield cluster


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create_all(cluster: Cluster) -> None:
    admin = admin_of(cluster)  # its answers end with it
    for answer in admin.create_topics([NewTopic(name, 1, 1) for name in NAMES], request_timeout=PATIENCE_S).values():
        answer.result(PATIENCE_S)


def listed(cluster: Cluster) -> list[str]:
    return sorted(admin_of(cluster).list_topics(timeout=PATIENCE_S).topics)


def write_to_all(cluster: Cluster, value: bytes) -> None:
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "on_delivery": lambda error, _: failures.append(error) if error else None,
        }
    )
    for name in NAMES:
        producer.produce(name, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def read_from_all(cluster: Cluster, count: int) -> dict[str, list[bytes]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "many", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, 0, 0) for name in NAMES])
    found: dict[str, list[bytes]] = {name: [] for name in NAMES}
    messages = consumer.consume(count, PATIENCE_S)
    consumer.close()
    for message in messages:
        assert message.error() is None
        found[message.topic()].append(message.value())
    return found


def test_what_was_created_is_listed_written_and_read_also_after_a_stop_and_a_crash(cluster: Cluster) -> None:
    create_all(cluster)
    assert listed(cluster) == NAMES
    write_to_all(cluster, b"first")
    cluster.restart()
    assert listed(cluster) == NAMES
    write_to_all(cluster, b"second")
    cluster.kill()
    cluster.start()
    assert listed(cluster) == NAMES
    assert read_from_all(cluster, 2 * TOPICS) == {name: [b"first", b"second"] for name in NAMES}


def test_what_was_deleted_is_gone_also_after_a_crash_and_its_names_are_free_again(cluster: Cluster) -> None:
    create_all(cluster)
    write_to_all(cluster, b"old")
    admin = admin_of(cluster)
    for answer in admin.delete_topics(NAMES, request_timeout=PATIENCE_S).values():
        answer.result(PATIENCE_S)
    assert listed(cluster) == []
    cluster.kill()
    cluster.start()
    assert listed(cluster) == []
    create_all(cluster)
    write_to_all(cluster, b"new")
    assert read_from_all(cluster, TOPICS) == {name: [b"new"] for name in NAMES}
