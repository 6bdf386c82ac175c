"""How soon is a single produced record acknowledged, and how many a second can one such producer send?"""

from __future__ import annotations

import os

from bench.loader import Template, one_at_a_time
from bench.node import Bench
from bench.report import Row, percentile
from bench.wire import Caller

VERSION = 13
WARM_UP = 300


def rows(bench: Bench) -> list[Row]:
    """One record per request, one request under way."""
    count = bench.size(10_000, 2_000)
    found = []
    with bench.node() as node, Caller(node.bootstrap) as caller:
        for payload_bytes in (100, 1024):
            for acks in (1, -1):
                topic = caller.create_topic(1)
                template = Template(topic, 0, [os.urandom(payload_bytes)], VERSION, acks)
                one_at_a_time(node.bootstrap, topic, template, WARM_UP)
                cpu = node.cpu_seconds()
                took = one_at_a_time(node.bootstrap, topic, template, count)
                cpu = node.cpu_seconds() - cpu
                case = f"{payload_bytes} B, acks={'all' if acks < 0 else acks}"
                note = f"p99 {percentile(took, 0.99) * 1e6:,.0f} µs, {count / cpu:,.0f} requests / CPU-s"
                found += [
                    Row(case, percentile(took, 0.5) * 1e6, "µs p50", note=note),
                    Row(case, count / sum(took), "requests / s"),
                ]
    return found
