"""The registry of three nodes: any of them answers, and nothing is lost with the one that decides."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self

import pytest
from confluent_kafka.admin import AdminClient, PartitionMetadata

from kavka.testing import Cluster
from scale import rounds

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient


logger = logging.getLogger(__name__)

KILLS = rounds(50, 2)


def schema(name: str) -> Schema:
    return Schema(json.dumps({"type": "record", "name": name, "fields": []}), "AVRO")


def test_any_node_answers_and_the_leader_may_die() -> None:
    with Cluster(nodes=3, config={"kavka.registry.listener": "127.0.0.1:0"}) as cluster:
        urls = dict(zip(cluster.nodes, cluster.registry.split(","), strict=True))
        for number, url in enumerate(urls.values(), start=1):
            with SchemaRegistryClient({"url": url}) as client:
                assert client.register_schema(f"s{number}", schema(f"R{number}")) == number
                assert client.get_subjects() == [f"s{each}" for each in range(1, number + 1)]
        leader = (
            AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics().topics["_schemas"].partitions[0].leader
        )
        cluster.kill(leader)
        for node in set(urls) - {leader}:
            with SchemaRegistryClient({"url": urls[node]}) as client:
                assert client.get_subjects()[:3] == ["s1", "s2", "s3"]
                assert client.register_schema("s9", schema("R9")) == 4


class Seen(NamedTuple):
    """A version that was acknowledged."""

    subject: str
    version: int
    id: int
    schema: str


class Clients:
    """Writers at every node and a reader that goes from one to the other, until told to stop."""

    def __init__(self, cluster: Cluster) -> None:
        self.urls = urls_of(cluster)
        self.acknowledged: list[Seen] = []
        self.reads = 0
        self.failures: list[str] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(node,)) for node in self.urls]
        self._threads.append(threading.Thread(target=self._read))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(120)

    def acknowledged_more_than(self, count: int) -> bool:
        return len(self.acknowledged) > count

    def _write(self, node: int) -> None:
        number = 0
        while not self._stopping.is_set():
            text = json.dumps({"type": "record", "name": f"W{node}_{number}", "fields": []}, separators=(",", ":"))
            subject = f"w{node}-{number % 3}"
            said = self._ask(node, f"/subjects/{subject}/versions", {"schema": text})
            if said is not None:  # else it may or may not be there: it is sent again
                self.acknowledged.append(Seen(subject, said["version"], said["id"], text))
                number += 1

    def _read(self) -> None:
        before: dict[str, list[int]] = {}
        while not self._stopping.is_set():
            for node in self.urls:
                known = sorted({each.subject for each in self.acknowledged})
                for subject in known:
                    found = self._ask(node, f"/subjects/{subject}/versions")
                    if found is None:
                        break
                    self.reads += 1
                    if found[: len(before.get(subject, ()))] != before.get(subject, []):
                        self.failures.append(f"{subject} at node {node}: {found[-3:]} after {before[subject][-3:]}")
                    before[subject] = found

    def _ask(self, node: int, path: str, body: Any = None) -> Any:
        """The answer of a node; None if it has none now."""
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.urls[node] + path, data), timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                if error.code < 500:
                    self.failures.append(f"{path} at node {node}: {error.code} {error.read()!r}")
        except (OSError, http.client.HTTPException):
            self._stopping.wait(0.05)  # the node is gone, or on its way
        return None


def urls_of(cluster: Cluster) -> dict[int, str]:
    return dict(zip(cluster.nodes, cluster.registry.split(","), strict=True))


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


@pytest.mark.timeout(3600 if rounds(1, 0) else 300)
def test_ids_are_unique_and_nothing_is_lost_while_leaders_are_killed() -> None:
    config = {"kavka.registry.listener": "127.0.0.1:0", "broker.session.timeout.ms": "3000"}
    with Cluster(nodes=3, config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

        def partition() -> PartitionMetadata:
            return admin.list_topics("_schemas", timeout=30).topics["_schemas"].partitions[0]

        with SchemaRegistryClient({"url": cluster.registry.split(",")[0]}) as client:
            client.set_compatibility(level="NONE")
        with Clients(cluster) as clients:
            for _ in range(KILLS):
                until(lambda: len(partition().isrs) == 3 and partition().leader > 0)
                leader = partition().leader
                cluster.kill(leader)
                until(partial(clients.acknowledged_more_than, len(clients.acknowledged) + 20))
                cluster.start(leader)
                clients.urls.update(urls_of(cluster))
        logger.info("%d kills, %d schemas, %d reads", KILLS, len(clients.acknowledged), clients.reads)
        assert clients.failures == []
        assert clients.reads > KILLS
        check(cluster, clients.acknowledged)


def check(cluster: Cluster, acknowledged: list[Seen]) -> None:
    """All that was acknowledged is there, at every node, and no id or version was given out twice."""
    assert len({each.id for each in acknowledged}) == len(acknowledged)
    assert len({(each.subject, each.version) for each in acknowledged}) == len(acknowledged)
    for url in urls_of(cluster).values():
        found: dict[int, tuple[str, int, str]] = {}
        while True:
            with urllib.request.urlopen(f"{url}/schemas?offset={len(found)}&limit=1000", timeout=60) as response:
                page = json.load(response)
            if not page:
                break
            found |= {each["id"]: (each["subject"], each["version"], each["schema"]) for each in page}
        assert {each.id: (each.subject, each.version, each.schema) for each in acknowledged}.items() <= found.items()
        assert sorted(found) == list(range(1, len(found) + 1))  # what was not acknowledged has its id as well
