"""`python -m bench.pairs --base TREE`: is this tree faster or slower than another one of the same project?

A node of each runs side by side; each question is put to both in turns, now to this one first, now to that one. What
counts is the median of the pairs' ratios: a busy machine disturbs both halves of a pair, and no single one decides.
`--quotas`, `--acls`: what quotas cost that nobody reaches, or an authorizer with 10,000 ACLs, on this tree unless
another is named. `--console`: what it costs to be looked at, by a live tail and a page of the console and a scrape each
second.
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

from bench import watched
from bench.acls import CONFIG as AUTHORIZER
from bench.acls import create_rules
from bench.batches import FULL_BATCHES
from bench.fetches import MIB, drain, fill, walk
from bench.groups import CONFIG, gather_consumers, raise_open_files
from bench.groups import measure as measure_groups
from bench.node import Bench, Node, PreciseNode
from bench.pipelined import measure
from bench.tiny_requests import TINY
from kavka.client import DEFAULT, QuotaEntity, blocking
from kavka.testing import Cluster

HERE = Path(__file__).resolve().parents[1]
ENOUGH = 0.97
FEWEST_PAIRS = 7
GROUPS = 20
UNREACHED = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}


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


@dataclass(frozen=True, slots=True)
class Burden:
    """What a node has to heed, or to show, that changes no answer."""

    quotas: bool = False
    acls: bool = False
    console: bool = False


@contextlib.contextmanager
def serving(tree: Path, burden: Burden) -> Iterator[PreciseNode]:
    """A node that runs the code of a tree; its clients may have quotas that they do not reach, and need rights."""
    config = {**CONFIG, **(AUTHORIZER if burden.acls else {}), **(watched.CONFIG if burden.console else {})}
    with contextlib.ExitStack() as held:
        cluster = held.enter_context(Cluster(config=config, env={"PYTHONPATH": str(tree / "src")}, timeout=120))
        if burden.console:
            watched.settled(cluster)
            watcher = watched.Watcher(cluster)
            held.callback(lambda: print(f"seen: {watcher.events} events, {watcher.scrapes} scrapes", flush=True))
            held.enter_context(watcher.looking())
        with blocking.Client(cluster.bootstrap) as client:
            if burden.quotas:
                client.admin.alter_quotas(QuotaEntity(user=DEFAULT, client_id=DEFAULT), UNREACHED)
            if burden.acls:
                create_rules(client.admin)
        yield PreciseNode(cluster.bootstrap, cluster.pid)


def compare(ask: Callable[[Node], Run], base: Path, pairs: int, burden: Burden) -> list[float]:
    """How many times as much this tree does for its CPU time as the other, in each pair."""
    with serving(base, Burden()) as before, serving(HERE, burden) as after:
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
    parser.add_argument("--acls", action="store_true", help="have this tree's node ask an authorizer with 10,000 ACLs")
    parser.add_argument("--console", action="store_true", help="have this tree's node looked at while it is measured")
    parser.add_argument("--pairs", type=int, default=2 * FEWEST_PAIRS + 1)
    parser.add_argument("--only", action="append", choices=QUESTIONS, metavar="NAME", help=", ".join(QUESTIONS))
    options = parser.parse_args(arguments)
    burden = Burden(quotas=options.quotas, acls=options.acls, console=options.console)
    if options.base is None and burden == Burden():
        parser.error("name a checkout to compare with: --base TREE")
    base, pairs = (options.base or HERE).resolve(), max(options.pairs, FEWEST_PAIRS)
    raise_open_files(GROUPS * 10 + 200)
    slower = False
    for name in options.only or QUESTIONS:
        ratios = sorted(compare(QUESTIONS[name], base, pairs, burden))
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
