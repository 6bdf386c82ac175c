"""How much memory does a node hold, idle and after load?"""

from __future__ import annotations

import time

from bench.batches import FULL_BATCHES
from bench.node import Bench
from bench.pipelined import measure
from bench.report import Row, at_most
from bench.tiny_requests import TINY

SETTLE_S = 2.0
WANTED_IDLE_MB = 60


def rows(bench: Bench) -> list[Row]:
    """Resident memory two seconds after the start, then after tiny and full batches were written and read back."""
    with bench.node() as node:
        time.sleep(SETTLE_S)
        idle = node.rss_bytes()
        tiny, full = bench.size(200_000, 40_000), bench.size(32_000, 8_000)
        measure(node, TINY, 13, tiny)
        measure(node, FULL_BATCHES, 13, full)
        time.sleep(SETTLE_S)
        loaded, peak = node.rss_bytes(), node.peak_rss_bytes()
    note = f"{tiny:,} tiny requests, {full:,} of 14.5 KB, read back"
    return [
        Row("idle", idle / 1e6, "MB RSS", at_most(WANTED_IDLE_MB), f"{SETTLE_S:g} s after ready"),
        Row("loaded", loaded / 1e6, "MB RSS", note=note),
        Row("peak", peak / 1e6, "MB RSS"),
    ]
