"""Run many seeds: `python -m kavka.testing.sim --seeds 0-9999 --jobs 2`; a seed that fails is printed with its command.

A run that is interrupted says what it has shown so far, and how to go on.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kavka.testing.sim.lines import executed
from kavka.testing.sim.seeds import Attempt, command, run_seeds
from kavka.testing.sim.workloads import all_workloads

SAY_SECONDS: Final = 30.0
"""How often a run that nobody watches on a terminal says how far it is."""


class Findings:
    """What came of the seeds so far."""

    def __init__(self, seeds: range) -> None:
        self._seeds = seeds
        self._done: set[int] = set()
        self._cpu_seconds = 0.0
        self._sums: Counter[str] = Counter()
        self._covered: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self.violations = 0

    def take(self, found: Attempt) -> None:
        """Count a run in."""
        self._done.add(found.seed)
        self._cpu_seconds += found.cpu_seconds
        outcome = found.outcome
        if outcome is None:
            self.violations += 1
            return
        self._sums.update(
            seconds=int(outcome.seconds), events=outcome.events, elections=outcome.elections, faults=outcome.faults
        )
        self._covered.update(outcome.workloads)
        self._counts.update(outcome.counts)

    def __str__(self) -> str:
        done = len(self._done)
        cost = self._cpu_seconds / done if done else 0.0
        return f"{done:,} of {len(self._seeds):,} seeds, {cost:.2f} CPU-s each, {self.violations} with violations"

    def report(self) -> str:
        """What all runs did together."""
        sums = self._sums
        return "\n".join(
            (
                str(self),
                f"{sums['seconds']:,} virtual seconds, {sums['events']:,} events",
                f"{sums['elections']:,} elections, {sums['faults']:,} faults",
                "runs without a violation of each workload: "
                + ", ".join(f"{name} {self._covered[name]:,}" for name in sorted(self._covered)),
                *(f"{count:,} {name}" for name, count in sorted(self._counts.items())),
            )
        )

    def rest(self) -> str:
        """The seeds from the first on that has not been run; nothing if all have been."""
        left = next((seed for seed in self._seeds if seed not in self._done), None)
        return "" if left is None else f"{left}-{self._seeds[-1]}"


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


def say(what: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def watched(runs: Iterator[Attempt], findings: Findings, total: int) -> Iterator[Attempt]:
    """The runs, and how far they are: a bar on a terminal, else a line once in a while."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
            yield from progress.track(runs, total, description="seeds")
        return
    said = time.monotonic()
    for found in runs:
        yield found
        if time.monotonic() - said >= SAY_SECONDS:
            said = time.monotonic()
            say(str(findings))


def chosen(text: str) -> list[str]:
    """The names of workloads, which there must be."""
    known = {workload.__name__.lower() for workload in all_workloads()}
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if strangers := sorted(set(names) - known):
        raise argparse.ArgumentTypeError(f"no workload is called {', '.join(strangers)}: {', '.join(sorted(known))}")
    return names


def seed_range(text: str) -> range:
    """One seed, or from the first to the last."""
    first, _, last = text.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text} has no seeds")
    return seeds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds and report; 1 if any failed or was not run."""
    parser = argparse.ArgumentParser(prog="python -m kavka.testing.sim", description=__doc__)
    parser.add_argument("--seeds", type=seed_range, default="0-300", help="one seed, or FIRST-LAST")
    parser.add_argument("--workloads", type=chosen, default=[], help="these in each run, and not what its seed draws")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes")
    parser.add_argument("--lines", type=int, default=5, help="count executed lines in so many of the runs; 0: in none")
    given = parser.parse_args(arguments)
    seeds: range = given.seeds
    workloads: list[str] = given.workloads
    findings = Findings(seeds)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for found in watched(run_seeds(seeds, given.jobs, workloads), findings, len(seeds)):
            findings.take(found)
            if found.violation:
                say(f"seed {found.seed}: {found.violation}\n  again with: {command(found.seed, workloads)}")
    except KeyboardInterrupt:
        say(f"interrupted; the rest: --seeds {findings.rest()}")
    finally:
        signal.signal(signal.SIGTERM, before)
    say(findings.report())
    if findings.rest():
        return 1
    if given.lines:
        say(lines_of(seeds[: given.lines]))
    return 1 if findings.violations else 0


if __name__ == "__main__":
    sys.exit(main())
