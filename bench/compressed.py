"""What does a batch cost whose records have to be decompressed to be judged?"""

from __future__ import annotations

import os

from bench.node import Bench
from bench.pipelined import Load, measure
from bench.report import Row, best_of

CODECS = ((1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd"))


def rows(bench: Bench) -> list[Row]:
    """A hundred records of 145 bytes: a batch of 16 KB before it is compressed."""
    requests = bench.size(24_000, 8_000)
    found = []
    with bench.node() as node:
        for codec, name in CODECS:
            load = Load(payload_bytes=145, records=100, depth=64, chunk=8, prebuilt=False, codec=codec)
            runs = []
            for _ in range(bench.repeats):
                os.sync()  # what earlier runs left unwritten would make the kernel hold this one's writes up
                runs.append(measure(node, load, 13, requests))
            best = max(runs, key=lambda run: run.per_cpu_second)
            case = f"Produce v13, 100 records in {best.batch_bytes / 1000:.1f} KB of {name}"
            note = best_of([run.per_cpu_second for run in runs])
            found.append(Row(case, best.per_cpu_second, "requests / CPU-s", note=note))
    return found
