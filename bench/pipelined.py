"""Pipelined load over many partitions: shared by the questions about tiny requests and about 14.5 KB batches."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bench.loader import Lane, Template, run
from bench.node import Broker
from bench.readback import read_topic
from bench.wire import BenchError, Caller, Topic

CONNECTIONS = 8
PARTITIONS = 100
ACKS_ALL = -1


@dataclass(frozen=True, slots=True)
class Load:
    """What each request carries and how many are under way per connection."""

    payload_bytes: int
    records: int
    depth: int
    chunk: int
    prebuilt: bool
    codec: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run took."""

    requests: int
    batch_bytes: int
    wall_seconds: float
    cpu_seconds: float

    @property
    def per_cpu_second(self) -> float:
        """Requests per CPU-second of the broker."""
        return self.requests / self.cpu_seconds


def measure(node: Broker, load: Load, version: int, requests: int) -> Outcome:
    """Warm up, load, read everything back; only the load is on the clock."""
    with Caller(node.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
        producers = [caller.new_producer() for _ in range(CONNECTIONS)]
    templates = [_templates(topic, number, load, version, *producer) for number, producer in enumerate(producers)]
    acknowledged: dict[int, int] = {}
    each = requests // CONNECTIONS
    _drive(node, topic, templates, load, max(PARTITIONS, each // 10), acknowledged)
    wall, cpu = _drive(node, topic, templates, load, each, acknowledged)
    batch_bytes = templates[0][0].batch_bytes
    for partition, found in read_topic(node.bootstrap, topic).items():
        wanted = acknowledged[partition], acknowledged[partition] * load.records
        if (found.batches, found.records) != wanted:
            raise BenchError(f"partition {partition}: {found} was read, {wanted} batches and records were acknowledged")
    with Caller(node.bootstrap) as caller:
        caller.delete_topics([topic.name])
    return Outcome(each * CONNECTIONS, batch_bytes, wall, cpu)


def _templates(
    topic: Topic, number: int, load: Load, version: int, producer_id: int, producer_epoch: int
) -> list[Template]:
    payloads = [_payload(load.payload_bytes, load.codec) for _ in range(load.records)]
    made = []
    for partition in range(number, topic.partitions, CONNECTIONS):
        template = Template(topic, partition, payloads, version, ACKS_ALL, load.codec)
        template.own(producer_id, producer_epoch)
        made.append(template)
    return made


def _payload(size: int, codec: int) -> bytes:
    """Random bytes, or hexadecimal fields that a codec finds something to do with."""
    if not codec:
        return os.urandom(size)
    fields = b",".join(b'"field%d":"%s"' % (number, os.urandom(6).hex().encode()) for number in range(size // 24))
    return (b"{" + fields + b"}")[:size]


def _drive(
    node: Broker, topic: Topic, templates: list[list[Template]], load: Load, each: int, acknowledged: dict[int, int]
) -> tuple[float, float]:
    lanes = [Lane(node.bootstrap, topic, mine, each, load.depth, load.chunk, load.prebuilt) for mine in templates]
    cpu = node.cpu_seconds()
    wall = run(lanes)
    cpu = node.cpu_seconds() - cpu
    for lane in lanes:
        for partition, count in lane.verify().items():
            acknowledged[partition] = acknowledged.get(partition, 0) + count
    return wall, cpu
