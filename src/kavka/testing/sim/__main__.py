"""Run many seeds: `python -m kavka.testing.sim --seeds 0-10000 --processes 2`; a seed that fails is printed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kavka.testing.sim.cluster import Outcome
from kavka.testing.sim.seeds import run_seeds


def report(good: Sequence[Outcome]) -> str:
    """What all runs did together, and the least of them."""
    seconds = [one.virtual_ms // 1000 for one in good]
    elections = [one.elections for one in good]
    return "\n".join(
        (
            f"{sum(seconds):,} virtual seconds, at least {min(seconds)} in each run",
            f"{sum(elections):,} elections, at least {min(elections)} in each run",
            f"{sum(one.acked for one in good):,} acknowledged records",
            f"{sum(one.snapshots for one in good):,} snapshots",
            f"{sum(one.voter_changes for one in good):,} changes of voters",
            f"{sum(one.truncations for one in good):,} truncations",
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds and report; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m kavka.testing.sim", description=__doc__)
    parser.add_argument("--seeds", default="0-300", help="one seed, or FIRST-LAST")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    began = time.monotonic()
    good: list[Outcome] = []
    bad = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        for found in progress.track(run_seeds(seeds, given.processes), len(seeds), description="seeds"):
            if isinstance(found, Outcome):
                good.append(found)
            else:
                bad += 1
                sys.stdout.write(f"seed {found[0]}: {found[1]}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{len(seeds):,} runs in {time.monotonic() - began:.0f} s, {bad} with violations\n")
    if good:
        sys.stdout.write(report(good) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
