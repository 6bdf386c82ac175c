"""How many tiny Produce requests does a broker CPU-second serve, when clients pipeline them?"""

from __future__ import annotations

from bench.node import Bench
from bench.pipelined import CONNECTIONS, PARTITIONS, Load, measure
from bench.report import Row, at_least, best_of

TINY = Load(payload_bytes=10, records=1, depth=512, chunk=128, prebuilt=True)
WANTED_PER_CPU = 80_000


def rows(bench: Bench) -> list[Row]:
    """Topics by name (v9) and by id (v13)."""
    requests = bench.size(240_000, 80_000)
    found = []
    with bench.node() as node:
        for version in (9, 13):
            runs = [measure(node, TINY, version, requests) for _ in range(bench.repeats)]
            best = max(runs, key=lambda run: run.per_cpu_second)
            case = f"Produce v{version}, {best.batch_bytes} B batches"
            load = f"{requests:,} requests, {CONNECTIONS} idempotent producers, {PARTITIONS} partitions, all read back"
            note = best_of([run.per_cpu_second for run in runs])
            found += [
                Row(case, best.per_cpu_second, "requests / CPU-s", at_least(WANTED_PER_CPU), note),
                Row(case, best.requests / best.wall_seconds, "requests / s", note=load),
            ]
    return found
