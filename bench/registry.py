"""What do 50,000 schemas cost: to start with, to hold in memory, and to look one up by its id?"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator

from bench.node import Bench, Node
from bench.report import Row, at_most
from kavka.client import blocking
from kavka.coordinator.registry.calls import Rest, call_of
from kavka.coordinator.registry.machine import Registry
from kavka.coordinator.registry.records import RegistryCodec, RegistryRecord, SchemaKey, SchemaVersion
from kavka.testing import Cluster

VERSIONS = 10
FIELDS = 12
LOOKUP_US = 100
CONFIG = {"kavka.registry.listener": "127.0.0.1:0"}


def rows(bench: Bench) -> list[Row]:
    """A node that starts with its log full of schemas, and the machine alone; the best of some rounds counts."""
    count, asked = bench.size(50_000, 5_000), bench.size(20_000, 2_000)
    with Cluster(config=CONFIG, timeout=120) as cluster:
        ask(cluster, "/subjects")  # makes the topic
        empty = start(cluster)
        node = Node(cluster.bootstrap, cluster.pid)
        rss_before = node.rss_bytes()
        with blocking.Client(cluster.bootstrap) as client, client.producer() as producer:
            for record in records(count):
                key, value = RegistryCodec().encode(record)
                producer.send("_schemas", value, key=key)
        full = start(cluster)
        node = Node(cluster.bootstrap, cluster.pid)
        rss, cpu, began = node.rss_bytes(), node.cpu_seconds(), time.perf_counter()
        look_up(cluster, count, asked)
        took, cpu = time.perf_counter() - began, node.cpu_seconds() - cpu
    loading, lookup = in_the_machine(count, asked)
    note = f"{count:,} schemas of {FIELDS} fields in {count // VERSIONS:,} subjects"
    return [
        Row("from start to the first schema", full, "s", note=f"{note}; an empty registry: {empty:.2f}"),
        Row("loading, the machine alone", loading, "s"),
        Row("memory", rss / 1e6, "MB RSS", note=f"with none: {rss_before / 1e6:.0f}"),
        Row("lookup by id in the node", 1e6 * lookup, "µs", at_most(LOOKUP_US), "request to answer, without HTTP"),
        Row(
            "lookup by id over HTTP",
            1e6 * took / asked,
            "µs",
            note=f"one connection; {1e6 * cpu / asked:.0f} µs of CPU",
        ),
    ]


def records(count: int) -> Iterator[RegistryRecord]:
    """Versions that each add a field with a default."""
    for number in range(count):
        subject, version = f"topic-{number // VERSIONS}-value", number % VERSIONS + 1
        fields = [
            {"name": f"field_{n}", "type": ["null", "string"], "default": None}
            for n in range(FIELDS - VERSIONS + version)
        ]
        said = {"type": "record", "name": f"Record{number // VERSIONS}", "namespace": "bench", "fields": fields}
        text = json.dumps(said, separators=(",", ":"))
        yield RegistryRecord(SchemaKey(subject, version), SchemaVersion(subject, version, number + 1, text))


def start(cluster: Cluster) -> float:
    """Restart a node; the seconds from its start to the answer of its registry."""
    cluster.stop()
    began = time.perf_counter()
    cluster.start()
    ask(cluster, "/schemas/ids/1")
    return time.perf_counter() - began


def connect(cluster: Cluster) -> http.client.HTTPConnection:
    host, _, port = cluster.registry.rpartition("//")[2].rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=120)


def ask(cluster: Cluster, path: str) -> bytes:
    connection = connect(cluster)
    connection.request("GET", path)
    said = connection.getresponse().read()
    connection.close()
    return said


def look_up(cluster: Cluster, count: int, asked: int) -> None:
    connection = connect(cluster)
    for number in range(asked):
        connection.request("GET", f"/schemas/ids/{number * 7919 % count + 1}")
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise LookupError(f"status {response.status}")
    connection.close()


def in_the_machine(count: int, asked: int) -> tuple[float, float]:
    """Seconds to load a machine from its records, and to look one schema up."""
    machine, codec = Registry(), RegistryCodec()
    encoded = [codec.encode(record) for record in records(count)]
    began = time.perf_counter()
    for offset, (key, value) in enumerate(encoded):
        record = codec.decode(key, value)
        assert isinstance(record, RegistryRecord)
        machine.replay(record, offset)
    loading = time.perf_counter() - began
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for number in range(asked):
            json.dumps(machine.answer(call_of(Rest("GET", f"/schemas/ids/{number * 7919 % count + 1}"))).body)
        best = min(best, (time.perf_counter() - began) / asked)
    return loading, best
