"""The metrics of real nodes: what the documentation names is there, and what is there is in the documentation."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from kavka.client import blocking
from kavka.testing.cluster import Cluster

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
CONFIG = {
    "kavka.metrics.listener": "127.0.0.1:0",
    "kavka.metrics.detail": "partition",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "log.retention.check.interval.ms": "1000",
    "kavka.audit.enable": "true",
    "kavka.audit.topic.enable": "true",
}
SECONDS = 60.0


def get(cluster: Cluster, node: int, path: str = "/metrics") -> str:
    with urlopen(f"http://{cluster.node(node).ready['metrics']}{path}", timeout=SECONDS) as answer:
        return str(answer.read().decode())


def numbers(page: str) -> dict[str, float]:
    samples = (line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config=CONFIG) as cluster:
        yield cluster


def test_what_is_shown_is_documented_and_the_other_way_round(cluster: Cluster) -> None:
    page = get(cluster, 1)
    shown = set(re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE))
    documented = set(re.findall(r"\bkavka_\w*\w\b(?!\.\.\.)", DOCS.read_text()))
    families = {
        name for name in documented if not name.startswith(("kavka_client_", "kavka_telemetry_", "kavka_remote"))
    }
    families = {re.sub(r"_(bucket|count|sum)$", "", name) if name not in shown else name for name in families}
    assert families - shown == set()
    like_a_topic = {name for name in shown if name.replace("kavka_partition_", "kavka_topic_") in documented}
    ours = {name for name in shown if not name.startswith(("kavka_telemetry_", "kavka_client_"))}
    assert ours - documented - like_a_topic == set()


def test_the_lag_of_a_group_and_the_traffic_of_its_topic(cluster: Cluster) -> None:
    with blocking.Client(cluster.bootstrap) as client:
        client.admin.create_topic("orders", partitions=3, replication_factor=3)
        with client.producer() as producer:
            for number in range(30):
                producer.send("orders", b"%d" % number, partition=number % 3)
        with client.group_consumer("billing", "orders", start="start") as consumer:
            seen = 0
            while seen < 30:
                seen += len(consumer.read())
        with client.producer() as producer:
            for number in range(6):
                producer.send("orders", b"late", partition=number % 3)

    def everywhere(name: str) -> float:
        return sum(numbers(get(cluster, node)).get(name, 0.0) for node in (1, 2, 3))

    assert everywhere('kavka_topic_in_messages_total{topic="orders"}') == 36
    assert everywhere('kavka_topic_out_bytes_total{topic="orders"}') > 0
    sent, fetched = (
        everywhere(f'kavka_topic_replication_{way}_bytes_total{{topic="orders"}}') for way in ("out", "in")
    )
    assert sent >= fetched == 2 * everywhere('kavka_topic_in_bytes_total{topic="orders"}')
    until(lambda: everywhere('kavka_group_lag_records{group="billing"}') == 6)
    assert everywhere('kavka_group_partition_lag_records{group="billing",topic="orders",partition="2"}') == 2
    assert everywhere('kavka_groups{type="consumer",state="Empty"}') == 1
    assert everywhere('kavka_request_seconds_count{api="Produce",role="broker"}') >= 2
    assert everywhere('kavka_request_seconds_count{api="BrokerHeartbeat",role="controller"}') > 0
    assert everywhere("kavka_active_controller") == 1


def test_a_broker_that_is_gone_is_seen(cluster: Cluster) -> None:
    with blocking.Client(cluster.bootstrap) as client:
        client.admin.create_topic("two", assignments={0: [1, 3]}, configs={"min.insync.replicas": "2"})
    assert get(cluster, 1, "/readyz") == get(cluster, 1, "/healthz") == "ok\n"
    cluster.kill(3)
    until(lambda: numbers(get(cluster, 1))["kavka_under_min_isr_partitions"] >= 1)
    found = numbers(get(cluster, 1))
    assert found["kavka_under_replicated_partitions"] >= 1
    cluster.kill(2)

    def unready() -> str:
        try:
            return get(cluster, 1, "/readyz")
        except HTTPError as error:
            return f"{error.code} {error.read().decode()}"

    until(lambda: unready().startswith("503 "))
    assert get(cluster, 1, "/healthz") == "ok\n"
    cluster.start(2)
    cluster.start(3)
    until(lambda: unready() == "ok\n")
    until(lambda: numbers(get(cluster, 1))["kavka_under_replicated_partitions"] == 0)
    assert sum(numbers(get(cluster, node))["kavka_isr_expands_total"] for node in (1, 2)) > 0


def test_coordinators_are_loaded_when_a_group_comes_and_after_a_restart_by_themselves() -> None:
    with Cluster(config={"kavka.metrics.listener": "127.0.0.1:0", "offsets.topic.num.partitions": "2"}) as cluster:

        def loaded() -> bool:
            return any(name.startswith("kavka_coordinator_records") for name in numbers(get(cluster, 1)))

        with blocking.Client(cluster.bootstrap) as client:
            client.admin.create_topic("orders")
            assert not loaded()
            with client.producer() as producer, client.group_consumer("billing", "orders", start="start") as consumer:
                producer.send("orders", b"first").result()
                assert consumer.read()
            assert loaded()
        cluster.stop(1)
        cluster.start(1)
        until(loaded)
