"""What do three nodes do that keep three copies of everything?"""

from __future__ import annotations

from collections.abc import Iterator

from bench.bulk import consume, produce, random_payloads
from bench.rival.figures import Figure, less, more
from bench.rival.librdkafka import await_each, create_topic
from bench.rival.questions.bulk import timed
from bench.rival.target import Scale, Target

NODES = 3
PARTITIONS = 6
CONFIG = {"min.insync.replicas": "2"}
AIM = 0.8


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Replication factor 3, acks=all, all three nodes on the brokers' cores; librdkafka."""
    idle = target.rss_bytes()
    return [
        less("process start to all nodes answering", target.started_in_seconds * 1000, "ms"),
        less("memory of all three, idle", idle / 1e6, "MB RSS"),
        *_bulk(target, scale),
        *_awaited(target, scale),
        less("memory of all three, after load", target.rss_bytes() / 1e6, "MB RSS"),
    ]


def _awaited(target: Target, scale: Scale) -> Iterator[Figure]:
    seconds = float(scale.size(5, 1))
    topic = create_topic(target.bootstrap, 1, NODES)
    await_each(target.bootstrap, topic, 100, seconds)
    awaited = await_each(target.bootstrap, topic, 100, seconds)
    yield more("RF 3, awaited 100 B: rate", awaited.rate, "sends / s", aim=AIM)
    yield less("RF 3, awaited 100 B: p50", awaited.micros(0.5), "µs")
    yield less("RF 3, awaited 100 B: p99", awaited.micros(0.99), "µs")


def _bulk(target: Target, scale: Scale) -> Iterator[Figure]:
    warm = create_topic(target.bootstrap, PARTITIONS, NODES)
    produce(target.bootstrap, warm, random_payloads(1024), scale.size(50_000, 4_000), "none")
    for payload_bytes, count in ((100, scale.size(300_000, 20_000)), (1024, scale.size(100_000, 8_000))):
        yield from _both_ways(target, payload_bytes, count)


def _both_ways(target: Target, payload_bytes: int, count: int) -> Iterator[Figure]:
    bootstrap, pool = target.bootstrap, random_payloads(payload_bytes)
    topic, case = create_topic(bootstrap, PARTITIONS, NODES), f"RF 3, {payload_bytes:,} B"
    yield from timed(target, f"{case}: produce", count, lambda: produce(bootstrap, topic, pool, count, "none"), AIM)
    yield from timed(target, f"{case}: consume", count, lambda: consume(bootstrap, topic, payload_bytes, count), AIM)
