"""How soon does a fresh node answer, and how much memory does it hold, idle and after load?"""

from __future__ import annotations

import time

from bench import bulk
from bench.pipelined import Load, measure
from bench.rival.figures import Figure, less
from bench.rival.target import Scale, Target
from bench.wire import Caller

NODES = 1
SETTLE_S = 2.0
TINY = Load(payload_bytes=10, records=1, depth=512, chunk=128, prebuilt=False)


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Process start to the first Metadata answer; memory two seconds later, and after raw and bulk load."""
    time.sleep(SETTLE_S)
    idle, cpu = target.rss_bytes(), target.cpu_seconds()
    measure(target, TINY, 13, scale.size(120_000, 8_000))
    with Caller(target.bootstrap) as caller:
        topic = caller.create_topic(bulk.PARTITIONS)
    messages = scale.size(300_000, 20_000)
    bulk.produce(target.bootstrap, topic, bulk.random_payloads(1024), messages, "none")
    bulk.consume(target.bootstrap, topic, 1024, messages)
    time.sleep(SETTLE_S)
    return [
        less("process start to first answer", target.started_in_seconds * 1000, "ms", aim=0.1),
        less("CPU until idle", cpu, "CPU-s"),
        less("memory, idle", idle / 1e6, "MB RSS", aim=0.2),
        less("memory, after load", target.rss_bytes() / 1e6, "MB RSS", aim=0.2),
    ]
