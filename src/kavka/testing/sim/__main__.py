"""Run many seeds: `python -m kavka.testing.sim --seeds 0-10000 --processes 2`; a seed that fails is printed."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kavka.testing.sim.cluster import RunOutcome
from kavka.testing.sim.lines import executed
from kavka.testing.sim.seeds import run_seeds


def report(good: Sequence[RunOutcome]) -> str:
    """What all runs did together, and the least of them."""
    elections = [run.elections for run in good]
    counts: Counter[str] = Counter()
    for run in good:
        counts.update(run.counts)
    return "\n".join(
        (
            f"{sum(run.seconds for run in good):,.0f} virtual seconds, {sum(run.events for run in good):,} events",
            f"{sum(elections):,} elections, at least {min(elections)} in each run",
            f"{sum(run.faults for run in good):,} faults",
            *(f"{count:,} {name}" for name, count in sorted(counts.items())),
        )
    )


def lines_of(seeds: Sequence[int]) -> str:
    """How much of the shipped code some of the runs execute."""
    found = executed(seeds)
    if found is None:
        return "coverage is not installed: lines are not counted"
    rows = [
        f"  {name:12} {package.executed:6,} of {package.all:6,} {package.percent:4.0f} %"
        for name, package in found.items()
    ]
    return "\n".join((f"lines of src/kavka executed by {len(seeds)} of the runs:", *rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds and report; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m kavka.testing.sim", description=__doc__)
    parser.add_argument("--seeds", default="0-300", help="one seed, or FIRST-LAST")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--lines", type=int, default=5, help="count executed lines in so many of the runs; 0: in none")
    given = parser.parse_args(arguments)
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    began = time.monotonic()
    good: list[RunOutcome] = []
    bad = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        for found in progress.track(run_seeds(seeds, given.processes), len(seeds), description="seeds"):
            if isinstance(found, RunOutcome):
                good.append(found)
            else:
                bad += 1
                sys.stdout.write(f"seed {found[0]}: {found[1]}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{len(seeds):,} runs in {time.monotonic() - began:.0f} s, {bad} with violations\n")
    if good:
        sys.stdout.write(report(good) + "\n")
    if given.lines:
        sys.stdout.write(lines_of(seeds[: given.lines]) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
