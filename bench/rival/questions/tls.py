"""What does it all take over TLS, with the same key and whatever each of the two prefers otherwise?"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator

from bench.bulk import PARTITIONS, consume, produce, random_payloads
from bench.loader import Template
from bench.report import percentile
from bench.rival.figures import Figure, less, more
from bench.rival.questions.bulk import timed
from bench.rival.target import Encrypted, Scale, Target
from bench.tls import MIB, PRODUCE_VERSION, Work, connected, fetching, latencies, producing
from bench.wire import Caller

NODES = 1
ENCRYPTED = True
PAYLOAD_BYTES = 1024


def figures(target: Target, scale: Scale) -> list[Figure]:
    """librdkafka in bulk, requests of 1 MiB over a bare connection, and acknowledgements that are waited for."""
    encrypted = target.encrypted
    assert encrypted is not None
    count = scale.size(200_000, 20_000)
    list(in_bulk(target, encrypted, count // 3))
    return [*in_bulk(target, encrypted, count), *bare(target, encrypted, scale)]


def in_bulk(target: Target, encrypted: Encrypted, count: int) -> Iterator[Figure]:
    """Write a topic, read it, delete it."""
    security = {"security.protocol": "SSL", "ssl.ca.location": str(encrypted.authority)}
    address, pool = encrypted.bootstrap, random_payloads(PAYLOAD_BYTES)
    with Caller(target.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
        case = f"{PAYLOAD_BYTES:,} B"
        yield from timed(
            target, f"produce {case}", count, lambda: produce(address, topic, pool, count, "none", security)
        )
        yield from timed(
            target, f"consume {case}", count, lambda: consume(address, topic, PAYLOAD_BYTES, count, security)
        )
        caller.delete_topics([topic.name])


def bare(target: Target, encrypted: Encrypted, scale: Scale) -> Iterator[Figure]:
    """What the brokers take and give when the client does little else than TLS."""
    context = ssl.create_default_context(cafile=str(encrypted.authority))
    requests = scale.size(1_000, 100)
    with Caller(target.bootstrap) as caller, connected(encrypted.bootstrap, context) as sock:
        topic = caller.create_topic(1)
        template = Template(topic, 0, [os.urandom(MIB - 1000)], PRODUCE_VERSION, 1)
        yield from moved(target, "produce 1 MiB", producing(sock, template), requests)
        yield from moved(target, "fetch 1 MiB", fetching(sock, topic), requests)
        small = Template(caller.create_topic(1), 0, [os.urandom(100)], PRODUCE_VERSION, -1)
        latencies(producing(sock, small))
        took = latencies(producing(sock, small))
        yield less("100 B, acks=all: p50", percentile(took, 0.5) * 1e6, "µs")
        yield less("100 B, acks=all: p99", percentile(took, 0.99) * 1e6, "µs")


def moved(target: Target, case: str, work: Work, requests: int) -> Iterator[Figure]:
    """The rate of requests of 1 MiB, warmed up by as many, and what they cost the broker."""
    for _ in range(requests):
        work()
    cpu, began = target.cpu_seconds(), time.perf_counter()
    for _ in range(requests):
        work()
    wall, cpu = time.perf_counter() - began, target.cpu_seconds() - cpu
    megabytes = requests * MIB / 1e6
    yield more(case, megabytes / wall, "MB / s", aim=1.0)
    yield less(f"{case}: broker CPU", cpu * 1e3 / megabytes, "CPU-s / GB", aim=1.0)
