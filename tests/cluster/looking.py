"""What a cluster says of itself, through confluent-kafka's admin client, and waiting for it to be well."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.client import Quorum, blocking


def admin(bootstrap: str, patience_ms: int = 3_000) -> AdminClient:
    """An admin client that does not wait long for a node that is gone."""
    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "socket.timeout.ms": patience_ms,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
    )


def create(client: AdminClient, topic: str, partitions: int, replicas: int = 3, **config: str) -> None:
    """Create a topic."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    made = client.create_topics([NewTopic(topic, partitions, replicas, config=settings)], request_timeout=60)
    made[topic].result()


def partitions_of(client: AdminClient, topic: str) -> dict[int, Any]:
    """The partitions of a topic as Metadata has them."""
    found: dict[int, Any] = client.list_topics(topic, timeout=5).topics[topic].partitions
    return found


def leader_of(client: AdminClient, topic: str, partition: int = 0) -> int:
    """Who leads a partition; -1 if nobody does."""
    leader: int = partitions_of(client, topic)[partition].leader
    return leader


def quorum(bootstrap: str) -> Quorum:
    """The metadata quorum as DescribeQuorum has it."""
    with blocking.Client(bootstrap, timeout_ms=10_000) as client:
        return client.admin.describe_quorum()


def await_healthy(client: AdminClient, topic: str, nodes: int, timeout: float = 60.0) -> float:
    """Wait until every node is there and every partition has a leader and all replicas in sync; how long it took."""
    began = time.monotonic()
    while True:
        wrong: object = "nothing was heard"
        try:
            metadata = client.list_topics(topic, timeout=3)
            rows = metadata.topics[topic].partitions.values()
            wrong = [(row.id, row.leader, row.replicas, row.isrs) for row in rows if not is_well(row)]
            if not wrong and len(metadata.brokers) == nodes:
                return time.monotonic() - began
            wrong = wrong or sorted(metadata.brokers)
        except KafkaException as error:
            wrong = error
        assert time.monotonic() - began < timeout, f"the cluster is not healthy after {timeout:g} s: {wrong}"
        time.sleep(0.05)


def is_well(row: Any) -> bool:
    """Whether a partition has a leader and all its replicas in sync."""
    return row.leader >= 0 and sorted(row.replicas) == sorted(row.isrs)
