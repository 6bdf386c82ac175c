"""How many megabytes of 14.5 KB batches does a broker CPU-second take in?"""

from __future__ import annotations

import os

from bench.node import Bench
from bench.pipelined import CONNECTIONS, PARTITIONS, Load, measure
from bench.report import Row, at_least, best_of

FULL_BATCHES = Load(payload_bytes=1024, records=14, depth=64, chunk=8, prebuilt=False)
WANTED_PER_CPU = 250


def rows(bench: Bench) -> list[Row]:
    """Fourteen records of 1 KiB: what a client with the usual 16 KiB batch size sends."""
    requests = bench.size(48_000, 16_000)
    runs = []
    with bench.node() as node:
        for _ in range(bench.repeats):
            os.sync()  # what earlier runs left unwritten would make the kernel hold this one's writes up
            runs.append(measure(node, FULL_BATCHES, 13, requests))
    best = max(runs, key=lambda run: run.per_cpu_second)
    megabytes = best.batch_bytes / 1e6
    case = f"Produce v13, {best.batch_bytes / 1000:.1f} KB batches"
    load = f"{best.requests * megabytes:,.0f} MB, {CONNECTIONS} producers, {PARTITIONS} partitions, all read back"
    note = best_of([run.per_cpu_second * megabytes for run in runs])
    return [
        Row(case, best.per_cpu_second * megabytes, "MB / CPU-s", at_least(WANTED_PER_CPU), note),
        Row(case, best.requests * megabytes / best.wall_seconds, "MB / s", note=load),
        Row(case, best.per_cpu_second, "requests / CPU-s"),
    ]
