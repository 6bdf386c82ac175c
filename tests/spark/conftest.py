"""One Spark session and one node for all tests of this folder: both take longer to start than to use."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.blocking import Client
from kavka.testing import Cluster

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that tests can say `from scale import ...`

_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Spark's Python warns of its own use of pandas and of sockets that its workers leave; none of it is ours.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from kavka.spark.session import start

    conf = {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.task.maxFailures": "1",
    }
    session = start("tests", conf=conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def node() -> Iterator[Cluster]:
    config = {
        "log.retention.ms": "-1",
        "log.initial.task.delay.ms": "100",
        "transaction.two.phase.commit.enable": "true",
        "kavka.registry.listener": "127.0.0.1:0",
    }
    with Cluster(config=config) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def client(node: Cluster) -> Iterator[Client]:
    with Client(node.bootstrap) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> Callable[..., str]:
    """Creates topics with names that no other test has."""

    def create(partitions: int = 2, **configs: str) -> str:
        name = f"topic-{next(_numbers)}"
        given = {key.replace("_", "."): value for key, value in configs.items()}
        client.admin.create_topic(name, partitions=partitions, configs=given)
        return name

    return create


@pytest.fixture
def read(spark: Any, node: Cluster) -> Callable[..., Any]:
    """A batch read of a topic, with options."""

    def load(name: str, **options: Any) -> Any:
        given = {key.replace("__", "."): str(value) for key, value in options.items()}
        reader = spark.read.format("kavka").option("kafka.bootstrap.servers", node.bootstrap)
        if not {"assign", "subscribePattern"} & given.keys():
            reader = reader.option("subscribe", name)
        return reader.options(**given).load()

    return load


@pytest.fixture
def stream(spark: Any, node: Cluster) -> Callable[..., Any]:
    """A streaming read of a topic from its beginning, with options."""

    def load(name: str, **options: Any) -> Any:
        given = {"startingOffsets": "earliest", **{key.replace("__", "."): str(v) for key, v in options.items()}}
        reader = spark.readStream.format("kavka").option("kafka.bootstrap.servers", node.bootstrap)
        return reader.option("subscribe", name).options(**given).load()

    return load


def fill(client: Client, topic: str, count: int, *, start: int = 0, partitions: int = 2, codec: Any = "none") -> None:
    """Produce records whose value is their number, one partition after the other."""
    with client.producer(codec=codec) as producer:
        for number in range(start, start + count):
            producer.send(
                topic,
                b"%d" % number,
                key=b"key-%d" % number,
                partition=number % partitions,
                timestamp=1_700_000_000_000 + number,
                headers=[("number", b"%d" % number), ("none", None)] if number % 2 else (),
            )
