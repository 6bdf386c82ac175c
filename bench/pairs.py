"""`python -m bench.pairs --base TREE`: is this tree faster or slower than another one of the same project?

A node of each runs side by side; each question is put to both in turns, now to this one first, now to that one. What
counts is the median of the pairs' ratios: a busy machine disturbs both halves of a pair, and no single one decides.
`--quotas`: what quotas that nobody reaches cost, on this tree unless another is named.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.batches import FULL_BATCHES
from bench.fetches import MIB, drain, fill, walk
from bench.groups import CONFIG, gather_consumers, raise_open_files
from bench.groups import measure as measure_groups
from bench.node import Bench, Node
from bench.pipelined import measure
from bench.tiny_requests import TINY
from kavka.client import DEFAULT, QuotaEntity, blocking
from kavka.testing import Cluster

HERE = Path(__file__).resolve().parents[1]
ENOUGH = 0.97
FEWEST_PAIRS = 7
GROUPS = 20
UNREACHED = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}


@dataclass(frozen=True, slots=True)
class PreciseNode(Node):
    """A node whose CPU time is told in nanoseconds: short runs need more than clock ticks."""

    def cpu_seconds(self) -> float:
        """What all threads that there are have run so far."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


Run = Callable[[], float]
"""One measurement: work per CPU-second."""


def tiny_requests(node: Node) -> Run:
    """Tiny Produce requests, pipelined."""
    return lambda: measure(node, TINY, 13, 48_000).per_cpu_second


def batches(node: Node) -> Run:
    """Batches of 14.5 KB, pipelined."""

    def run() -> float:
        os.sync()
        return measure(node, FULL_BATCHES, 13, 12_000).per_cpu_second

    return run


def fetches(node: Node) -> Run:
    """Fetches of 1 MiB."""
    requests = walk(node, fill(node, 64 * MIB))
    return lambda: drain(node, requests, 1024 * MIB).per_cpu_second


def heartbeats(node: Node) -> Run:
    """Heartbeats of consumer groups, one at a time on each of many connections."""
    return lambda: measure_groups(node, GROUPS, gather_consumers, Bench(quick=True))[0]


QUESTIONS: dict[str, Callable[[Node], Run]] = {
    question.__name__: question for question in (tiny_requests, batches, fetches, heartbeats)
}


@contextlib.contextmanager
def serving(tree: Path, *, quotas: bool = False) -> Iterator[PreciseNode]:
    """A node that runs the code of a tree; its clients may have quotas, but none that they reach."""
    with Cluster(config=CONFIG, env={"PYTHONPATH": str(tree / "src")}, timeout=120) as cluster:
        if quotas:
            with blocking.Client(cluster.bootstrap) as client:
                client.admin.alter_quotas(QuotaEntity(user=DEFAULT, client_id=DEFAULT), UNREACHED)
        yield PreciseNode(cluster.bootstrap, cluster.pid)


def compare(ask: Callable[[Node], Run], base: Path, pairs: int, *, quotas: bool) -> list[float]:
    """How many times as much this tree does for its CPU time as the other, in each pair."""
    with serving(base) as before, serving(HERE, quotas=quotas) as after:
        then, now = ask(before), ask(after)
        then(), now()  # both are warm
        ratios = []
        for number in range(pairs):
            if number % 2:
                figure = now()
                ratios.append(figure / then())
            else:
                figure = then()
                ratios.append(now() / figure)
        return ratios


def main(arguments: Sequence[str] | None = None) -> int:
    """Put the questions; 1 if the answer to one is that this tree is slower."""
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__)
    parser.add_argument("--base", type=Path, metavar="TREE", help="a checkout to compare with, built")
    parser.add_argument("--quotas", action="store_true", help="set quotas on this tree's node, out of anybody's reach")
    parser.add_argument("--pairs", type=int, default=2 * FEWEST_PAIRS + 1)
    parser.add_argument("--only", action="append", choices=QUESTIONS, metavar="NAME", help=", ".join(QUESTIONS))
    options = parser.parse_args(arguments)
    if options.base is None and not options.quotas:
        parser.error("name a checkout to compare with: --base TREE")
    base, pairs = (options.base or HERE).resolve(), max(options.pairs, FEWEST_PAIRS)
    raise_open_files(GROUPS * 10 + 200)
    slower = False
    for name in options.only or QUESTIONS:
        ratios = sorted(compare(QUESTIONS[name], base, pairs, quotas=options.quotas))
        low, median, high = statistics.quantiles(ratios, n=4)
        slower |= median < ENOUGH
        print(
            f"{name:14} {median:6.3f} times the work per CPU-second in the median of {len(ratios)} pairs; "
            f"half of them {low:.3f} to {high:.3f}, all {ratios[0]:.3f} to {ratios[-1]:.3f}",
            flush=True,
        )
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
