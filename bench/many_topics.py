"""What do thousands of topics cost: to create, list and delete, to start with, to keep?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.node import Bench, Node
from bench.report import Row, at_most
from bench.wire import BenchError, Caller
from kavka.testing import Cluster

FEW = 500
PER_REQUEST = 100
LISTS = 5
SETTLE_S = 2.0
SETTLE_TIMEOUT_S = 60.0
POLL_S = 0.005
WANTED_RATIO = 1.5
WANTED_CLEAN_S = 3.0
WANTED_UNCLEAN_S = 10.0
WANTED_PARTITION_KB = 10.0


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds per topic, memory, and how long the node took to start with all of them."""

    created: float
    listed: float
    deleted: float
    rss_bytes: int
    restarted_rss_bytes: int
    clean_start_s: float
    unclean_start_s: float


def rows(bench: Bench) -> list[Row]:
    """The same at 500 topics of one partition and at ten times as many."""
    many = bench.size(5000, 1500)
    small, large = _costs(FEW), _costs(many)
    found = []
    for verb in ("created", "listed", "deleted"):
        few_ms, many_ms = getattr(small, verb), getattr(large, verb)
        note = f"{few_ms:.3f} ms per topic at {FEW}"
        found.append(Row(f"{verb}, at {many:,}", many_ms, "ms / topic", note=note))
        found.append(Row(f"{verb}, {many:,} against {FEW}", many_ms / few_ms, "times", at_most(WANTED_RATIO)))
    extra = many - FEW
    for case, rss in (
        ("idle partition", large.rss_bytes - small.rss_bytes),
        ("idle partition after a restart", large.restarted_rss_bytes - small.restarted_rss_bytes),
    ):
        found.append(Row(case, rss / extra / 1024, "KB RSS", at_most(WANTED_PARTITION_KB), f"{many:,} against {FEW}"))
    found += [
        Row(f"start with {many:,} after SIGTERM", large.clean_start_s, "s", at_most(WANTED_CLEAN_S)),
        Row(f"start with {many:,} after SIGKILL", large.unclean_start_s, "s", at_most(WANTED_UNCLEAN_S)),
    ]
    return found


def _costs(topics: int) -> Costs:
    names = [f"bench-{number:05}" for number in range(topics)]
    with Cluster(timeout=120) as cluster:
        with Caller(cluster.bootstrap) as caller:
            created = _per_topic(names, caller.create_topics)
            rss = _settled_rss(cluster)
        cluster.stop(timeout=120)
        clean = cluster.start().started_in_seconds
        restarted_rss = _settled_rss(cluster)
        cluster.kill()
        unclean = cluster.start().started_in_seconds
        with Caller(cluster.bootstrap) as caller:
            listed = _listed(caller, names)
            deleted = _per_topic(names, caller.delete_topics, lambda: _await_no_logs(cluster))
            if left := [name for name in caller.list_topics() if name.startswith("bench-")]:
                raise BenchError(f"{len(left)} topics are still listed after they were deleted")
    return Costs(created, listed, deleted, rss, restarted_rss, clean, unclean)


def _per_topic(
    names: list[str], act: Callable[[list[str]], object], settle: Callable[[], None] = lambda: None
) -> float:
    began = time.perf_counter()
    for first in range(0, len(names), PER_REQUEST):
        act(names[first : first + PER_REQUEST])
    settle()
    return (time.perf_counter() - began) * 1000 / len(names)


def _await_no_logs(cluster: Cluster) -> None:
    """Deleting is over when no log has its name any more, not when it was promised."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while left := sum(path.name.endswith("-0") for path in cluster.data_dir.glob("bench-*")):
        if time.monotonic() > deadline:
            raise BenchError(f"{left} logs of deleted topics are still there after {SETTLE_TIMEOUT_S:g} s")
        time.sleep(POLL_S)


def _listed(caller: Caller, names: list[str]) -> float:
    took = []
    for _ in range(LISTS):
        listed = caller.list_topics()
        took.append(caller.waited_seconds * 1000 / len(names))
        if sorted(listed) != names:
            raise BenchError(f"{len(listed)} topics are listed, {len(names)} were created")
    return min(took)


def _settled_rss(cluster: Cluster) -> int:
    time.sleep(SETTLE_S)
    return Node(cluster.bootstrap, cluster.pid).rss_bytes()
