"""How much does the broker itself take and give, when the client costs nearly nothing?"""

from __future__ import annotations

from bench.fetches import MIB, drain, fill, walk
from bench.pipelined import Load, measure
from bench.rival.figures import Figure, less, more
from bench.rival.target import Scale, Target

NODES = 1
VERSION = 13
TINY = Load(payload_bytes=10, records=1, depth=512, chunk=128, prebuilt=True)
FULL = Load(payload_bytes=1024, records=14, depth=64, chunk=8, prebuilt=False)


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Prebuilt Produce requests, pipelined over 8 connections and 100 partitions; fetches of 1 MiB from memory."""
    found = []
    for case, load, requests in (
        ("tiny Produce requests", TINY, scale.size(120_000, 16_000)),
        ("Produce of 14.5 KB batches", FULL, scale.size(16_000, 2_000)),
    ):
        measure(target, load, VERSION, requests // 2)
        run = measure(target, load, VERSION, requests)
        found += [
            more(case, run.requests / run.wall_seconds, "requests / s", aim=1.0),
            less(f"{case}: broker CPU", run.cpu_seconds * 1e6 / run.requests, "CPU-s / million", aim=1.0),
        ]
    topic = fill(target, scale.size(128, 32) * MIB)
    walks = walk(target, topic)
    drain(target, walks, scale.size(512, 64) * MIB)
    drained = drain(target, walks, scale.size(2048, 128) * MIB)
    return [
        *found,
        more("fetches of 1 MiB", drained.megabytes / drained.wall_seconds, "MB / s", aim=1.0),
        less("fetches of 1 MiB: broker CPU", drained.cpu_seconds * 1e3 / drained.megabytes, "CPU-s / GB", aim=1.0),
    ]
