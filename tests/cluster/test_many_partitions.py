"""A thousand partitions on three nodes: fail-over, memory, idle time; only when asked for (KAVKA_SCALE=full)."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from cluster.looking import admin, create, is_well, partitions_of
from kavka.testing import Cluster
from scale import FULL

PARTITIONS = 1_000
IDLE_SECONDS = 20


def resident_mb(pid: int) -> float:
    """The memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.apart
@pytest.mark.skipif(not FULL, reason="KAVKA_SCALE=full")
@pytest.mark.timeout(900)
def test_a_thousand_partitions_fail_over_in_time_and_cost_little() -> None:
    with Cluster(nodes=3, timeout=120) as cluster:
        client = admin(cluster.bootstrap, patience_ms=60_000)
        create(client, "orders", PARTITIONS)
        await_well(client, 3)
        before = {node: cpu_seconds(cluster.node(node).pid) for node in cluster.nodes}
        time.sleep(IDLE_SECONDS)  # what is measured is what happens when nothing does
        idle = {node: (cpu_seconds(cluster.node(node).pid) - before[node]) / IDLE_SECONDS for node in cluster.nodes}
        memory = {node: resident_mb(cluster.node(node).pid) for node in cluster.nodes}
        began = time.monotonic()
        cluster.kill(3)
        while any(row.leader in (3, -1) for row in partitions_of(client, "orders").values()):
            assert time.monotonic() - began < 60
            time.sleep(0.05)
        failed_over = time.monotonic() - began
        cluster.start(3)
        await_well(client, 3)
        sys.stdout.write(
            f"idle {', '.join(f'{100 * one:.1f} %' for one in idle.values())} of a core; "
            f"memory {', '.join(f'{one:.0f} MB' for one in memory.values())}; "
            f"failed over in {failed_over:.1f} s; restarted in {cluster.node(3).started_in_seconds:.1f} s\n"
        )
        assert failed_over < 5 + 1  # from the fencing; it takes a moment after the kill
        assert max(memory.values()) <= 150
        assert max(idle.values()) <= 0.05


def await_well(client: object, nodes: int) -> None:
    """Wait until all partitions have all their replicas in sync."""
    deadline = time.monotonic() + 120
    while not all(is_well(row) for row in partitions_of(client, "orders").values()):  # type: ignore[arg-type]
        assert time.monotonic() < deadline, "the partitions do not come into sync"
        time.sleep(0.2)
