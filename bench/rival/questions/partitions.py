"""What if the same messages are spread over many small partitions?"""

from __future__ import annotations

import time

from bench.bulk import consume, produce, random_payloads
from bench.rival.figures import Figure, less
from bench.rival.questions.bulk import timed
from bench.rival.target import Scale, Target
from bench.wire import Caller

NODES = 1
PAYLOAD_BYTES = 100


def figures(target: Target, scale: Scale) -> list[Figure]:
    """One topic of a thousand partitions, messages of 100 B in turn to each."""
    count, partitions = scale.size(300_000, 20_000), scale.size(1000, 200)
    pool = random_payloads(PAYLOAD_BYTES)
    with Caller(target.bootstrap) as caller:
        warm = caller.create_topic(10)
        produce(target.bootstrap, warm, pool, count // 2, "none")
        consume(target.bootstrap, warm, PAYLOAD_BYTES, count // 2)
        began = time.perf_counter()
        topic = caller.create_topic(partitions)
        created = time.perf_counter() - began
    bootstrap, case = target.bootstrap, f"{partitions:,} partitions"
    return [
        less(f"create {case}, until served", created * 1000, "ms"),
        *timed(target, f"produce to {case}", count, lambda: produce(bootstrap, topic, pool, count, "none")),
        *timed(target, f"consume from {case}", count, lambda: consume(bootstrap, topic, PAYLOAD_BYTES, count)),
        less(f"memory with {case}", target.rss_bytes() / 1e6, "MB RSS"),
    ]
