"""What if many producers are connected, each with one request under way?"""

from __future__ import annotations

import os
import time

from bench.groups import raise_open_files
from bench.loader import Lane, Template, run
from bench.rival.figures import Figure, less, more
from bench.rival.target import Scale, Target
from bench.wire import BenchError, Caller, Topic, check

NODES = 1
PARTITIONS = 20
PAYLOAD_BYTES = 100
VERSION = 13
ACKS_ALL = -1


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Requests of one message, acknowledged by all, in turn to 20 partitions."""
    connections, each = scale.size(1000, 100), scale.size(100, 40)
    raise_open_files(connections + 200)
    with Caller(target.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
    _load(target, topic, connections, each // 2)
    wall, cpu, rss = _load(target, topic, connections, each)
    requests, case = connections * each, f"{connections:,} connections"
    return [
        more(case, requests / wall, "requests / s", aim=1.0),
        less(f"{case}: broker CPU", cpu * 1e6 / requests, "CPU-s / million", aim=1.0),
        less(f"memory with {case}", rss / 1e6, "MB RSS"),
    ]


def _load(target: Target, topic: Topic, connections: int, each: int) -> tuple[float, float, int]:
    payload = os.urandom(PAYLOAD_BYTES)
    templates = [Template(topic, index, [payload], VERSION, ACKS_ALL) for index in range(PARTITIONS)]
    lanes = [
        Lane(target.bootstrap, topic, [templates[number % PARTITIONS]], each, depth=1, chunk=1, prebuilt=True)
        for number in range(connections)
    ]
    time.sleep(0.2)  # a broker may still be busy with accepting
    cpu, rss = target.cpu_seconds(), target.rss_bytes()
    wall = run(lanes)
    cpu = target.cpu_seconds() - cpu
    for lane in lanes:
        if len(lane.answers) != lane.layout.size * each:
            raise BenchError(lane.complaint())
        for fields in lane.layout.iter_unpack(lane.answers):
            check(fields[7], f"produce to partition {fields[6]}")
    return wall, cpu, rss
