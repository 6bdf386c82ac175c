"""How long from starting the process until it serves requests?"""

from __future__ import annotations

from bench.node import Bench, Node
from bench.report import Row, at_most, percentile
from kavka.testing import Cluster

STARTS = 10
WANTED_MS = 500


def rows(bench: Bench) -> list[Row]:
    """Ten starts in empty directories, ten on the data of the start before."""
    empty, cpu = [], []
    for _ in range(STARTS):
        with Cluster() as cluster:
            empty.append(cluster.started_in_seconds * 1000)
            cpu.append(Node(cluster.bootstrap, cluster.pid).cpu_seconds() * 1000)
    again = []
    with Cluster() as cluster:
        for _ in range(STARTS):
            cluster.restart()
            again.append(cluster.started_in_seconds * 1000)
    return [
        Row("empty directory, p50", percentile(empty, 0.5), "ms", note=f"of which CPU {percentile(cpu, 0.5):.0f} ms"),
        Row("empty directory, p90", percentile(empty, 0.9), "ms", at_most(WANTED_MS), f"{STARTS} starts"),
        Row("restart, p50", percentile(again, 0.5), "ms"),
        Row("restart, p90", percentile(again, 0.9), "ms", at_most(WANTED_MS), f"{STARTS} starts"),
    ]
