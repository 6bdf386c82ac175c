"""Metrics that librdkafka pushes are on the node's page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from kavka.client import blocking
from kavka.client.admin_configs import ConfigResource, ResourceType
from kavka.testing.cluster import Cluster

SECONDS = 60.0
ALL = ConfigResource(ResourceType.CLIENT_METRICS, "all")


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={"kavka.metrics.listener": "127.0.0.1:0"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def page(node: Cluster) -> Callable[[], str]:
    def get() -> str:
        with urlopen(f"http://{node.node(1).ready['metrics']}/metrics", timeout=SECONDS) as answer:
            return str(answer.read().decode())

    return get


def until(look: Callable[[], object]) -> None:
    ends = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_client_pushes_what_the_subscription_asks_for(node: Cluster, page: Callable[[], str]) -> None:
    with blocking.Client(node.bootstrap) as client:
        client.admin.alter_configs(ALL, set={"metrics": "*", "interval.ms": "200", "match": "client_id=shop-.*"})
    producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "shop-1", "enable.metrics.push": True})
    other = Producer({"bootstrap.servers": node.bootstrap, "client.id": "till-1", "enable.metrics.push": True})

    def told() -> list[str]:
        for one in (producer, other):
            one.produce("sales", b"x")
            one.poll(0)
        return [line for line in page().splitlines() if line.startswith("kavka_client_producer_")]

    until(lambda: len(told()) > 3)
    lines = told()
    assert all('client_id="shop-1"' in line for line in lines)
    assert all('client_software_name="confluent-kafka-python"' in line or "librdkafka" in line for line in lines)
    assert all(re.fullmatch(r"kavka_client_\w+\{.*\} [-+.e0-9]+", line) for line in lines), lines
    assert re.search(r"kavka_telemetry_pushes_total [1-9]", page())

    with blocking.Client(node.bootstrap) as client:
        client.admin.alter_configs(ALL, set={"metrics": "org.apache.kafka.producer.connection."})
    before = pushed(page())
    until(lambda: told() and pushed(page()) > before + 2)
    producer.flush(SECONDS)
    other.flush(SECONDS)


def pushed(page: str) -> float:
    (count,) = re.findall(r"^kavka_telemetry_pushes_total (\S+)$", page, re.M)
    return float(count)
