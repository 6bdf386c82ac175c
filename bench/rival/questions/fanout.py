"""How fast do the consumers of one group read a topic together?"""

from __future__ import annotations

from bench.bulk import produce, random_payloads
from bench.rival.figures import Figure, less, more
from bench.rival.librdkafka import share
from bench.rival.target import Scale, Target
from bench.wire import Caller

NODES = 1
CONSUMERS = 4
PARTITIONS = 8
PAYLOAD_BYTES = 100


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Four consumers, eight partitions; a first group reads it all before the measured one does."""
    count = scale.size(600_000, 40_000)
    with Caller(target.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
    produce(target.bootstrap, topic, random_payloads(PAYLOAD_BYTES), count, "none")
    share(target.bootstrap, topic, PAYLOAD_BYTES, count, CONSUMERS)
    cpu = target.cpu_seconds()
    seconds = share(target.bootstrap, topic, PAYLOAD_BYTES, count, CONSUMERS)
    cpu = target.cpu_seconds() - cpu
    case = f"a group of {CONSUMERS}, {PAYLOAD_BYTES} B"
    return [
        more(case, count / seconds, "messages / s", aim=1.0),
        less(f"{case}: broker CPU, joining included", cpu * 1e6 / count, "CPU-s / million", aim=1.0),
    ]
