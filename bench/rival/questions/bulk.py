"""How fast does librdkafka write and read in bulk, and what does a million messages cost the broker?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bench.bulk import PARTITIONS, consume, produce, random_payloads
from bench.rival.figures import Figure, less, more
from bench.rival.target import Scale, Target
from bench.wire import Caller

NODES = 1
CODECS = ("none", "lz4")


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Random payloads of three sizes; the small and the large are written and read once before."""
    small, middle, large = scale.size(600_000, 60_000), scale.size(200_000, 20_000), scale.size(30_000, 4_000)
    for payload_bytes, count in ((100, small // 3), (10_240, large // 3)):
        list(both_ways(target, payload_bytes, count, "none"))
    found: list[Figure] = []
    for payload_bytes, count in ((100, small), (1024, middle), (10_240, large)):
        for codec in CODECS:
            found += both_ways(target, payload_bytes, count, codec)
    return found


def both_ways(target: Target, payload_bytes: int, count: int, codec: str) -> Iterator[Figure]:
    """Write a topic, read it, delete it."""
    with Caller(target.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
    pool = random_payloads(payload_bytes)
    case = f"{payload_bytes:,} B, {codec}"
    yield from timed(target, f"produce {case}", count, lambda: produce(target.bootstrap, topic, pool, count, codec))
    yield from timed(target, f"consume {case}", count, lambda: consume(target.bootstrap, topic, payload_bytes, count))
    with Caller(target.bootstrap) as caller:
        caller.delete_topics([topic.name])


def timed(target: Target, case: str, count: int, act: Callable[[], object], aim: float = 1.0) -> Iterator[Figure]:
    """The rate of some messages, and the broker's CPU time for a million of them."""
    cpu, began = target.cpu_seconds(), time.perf_counter()
    act()
    wall, cpu = time.perf_counter() - began, target.cpu_seconds() - cpu
    yield more(case, count / wall, "messages / s", aim=aim)
    yield less(f"{case}: broker CPU", cpu * 1e6 / count, "CPU-s / million", aim=1.0)
