"""How many sends a second does a producer get acknowledged that waits for each, and how long does each take?"""

from __future__ import annotations

import os
import time

from bench.loader import Template, one_at_a_time
from bench.pipelined import measure
from bench.rival.figures import Figure, less, more
from bench.rival.librdkafka import Awaited, await_each
from bench.rival.questions.startup import TINY
from bench.rival.target import Scale, Target
from bench.wire import Caller, Topic

NODES = 1
VERSION = 13
AT_ONCE = 500
ACKS_ALL = -1


def figures(target: Target, scale: Scale) -> list[Figure]:
    """By librdkafka and by a bare socket, which takes less of the time itself; each warmed up as long as measured."""
    seconds = float(scale.size(5, 1))
    measure(target, TINY, VERSION, scale.size(80_000, 4_000))  # a JVM compiles what it has done often
    found = []
    with Caller(target.bootstrap) as caller:
        for payload_bytes in (100, 1024):
            topic = caller.create_topic(1)
            for client, send in (("librdkafka", await_each), ("bare socket", await_each_raw)):
                send(target.bootstrap, topic, payload_bytes, seconds)
                cpu = target.cpu_seconds()
                awaited = send(target.bootstrap, topic, payload_bytes, seconds)
                cpu = target.cpu_seconds() - cpu
                case = f"{payload_bytes:,} B, {client}"
                found += [
                    more(f"{case}: rate", awaited.rate, "sends / s", aim=1.5),
                    less(f"{case}: p50", awaited.micros(0.5), "µs"),
                    less(f"{case}: p99", awaited.micros(0.99), "µs"),
                    less(f"{case}: broker CPU", cpu * 1e6 / len(awaited.took), "CPU-s / million", aim=1.0),
                ]
    return found


def await_each_raw(bootstrap: str, topic: Topic, payload_bytes: int, seconds: float) -> Awaited:
    """The same as `await_each` with requests that are built beforehand."""
    template = Template(topic, 0, [os.urandom(payload_bytes)], VERSION, ACKS_ALL)
    took: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        took += one_at_a_time(bootstrap, topic, template, AT_ONCE)
    return Awaited(took)
